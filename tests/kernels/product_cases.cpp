#include <kernels/cases.hpp>

namespace rapt::testing {

using namespace kernels;

namespace {

struct Sizes {
  int64_t m, n, k;
};
constexpr Sizes kProducts[] = {{1, 1, 1},    {1, 17, 33}, {3, 5, 7}, {15, 16, 17}, {31, 33, 1},    {64, 64, 64},
                               {65, 63, 31}, {0, 5, 3},   {5, 0, 3}, {4, 6, 0},    {127, 15, 129}, {33, 129, 65}};

std::string describe(const Sizes& s) { return label(Shape{s.m, s.n, s.k}); }

constexpr TensorOptions kMatrix{.freedom = Freedom::matrix};
constexpr TensorOptions kRows{.freedom = Freedom::rows};

Gemm plain_product(Workspace& w, const Sizes& s, bool accumulate) {
  Gemm op;
  op.a = w.input({s.m, s.k}, kMatrix);
  op.b = w.input({s.k, s.n}, kMatrix);
  op.c = w.output("c", {s.m, s.n}, {.freedom = Freedom::rows, .accumulate = accumulate});
  op.accumulate = accumulate;
  return op;
}

Gemm with_epilogue(Workspace& w, const Sizes& s, Activation activation) {
  Gemm op = plain_product(w, s, false);
  op.bias = w.input({s.n}, {.dtype = w.master()});
  op.residual = w.input({s.m, s.n}, kRows);
  op.pre_activation = w.output("pre_activation", {s.m, s.n}, kRows);
  op.activation = activation;
  return op;
}

Operation gemm() {
  std::vector<Case<Gemm>> cases;
  for (const Sizes& s : kProducts) {
    for (const bool accumulate : {false, true})
      cases.push_back(
          {describe(s) + on(accumulate, "accumulate"), [=](Workspace& w) { return plain_product(w, s, accumulate); }});
    for (int f = 0; f <= int(Activation::sigmoid); ++f)
      cases.push_back({describe(s) + " epilogue " + std::to_string(f),
                       [=](Workspace& w) { return with_epilogue(w, s, Activation(f)); }});
    cases.push_back({describe(s) + " batch", [=](Workspace& w) {
                       Gemm op;
                       op.a = w.input({2, 3, s.m, s.k}, kMatrix);
                       op.b = w.input({2, 3, s.k, s.n}, kMatrix);
                       op.c = w.output("c", {2, 3, s.m, s.n}, kRows);
                       return op;
                     }});
    cases.push_back({describe(s) + " master weight", [=](Workspace& w) {
                       Gemm op;
                       op.a = w.input({s.m, s.k}, kMatrix);
                       op.b = w.input({s.k, s.n}, {.freedom = Freedom::matrix, .dtype = w.master()});
                       op.c = w.output("c", {s.m, s.n}, {.freedom = Freedom::rows, .dtype = w.master()});
                       op.b_is_weight = true;
                       return op;
                     }});
    cases.push_back({describe(s) + " i8", [=](Workspace& w) {
                       const TensorOptions bytes{.freedom = Freedom::matrix, .dtype = DType::i8, .scale = 30};
                       Gemm op;
                       op.a = w.input({s.m, s.k}, bytes);
                       op.b = w.input({s.k, s.n}, bytes);
                       op.c = w.output("c", {s.m, s.n}, {.freedom = Freedom::rows, .dtype = DType::i32});
                       return op;
                     }});
  }
  return operation(cases);
}

struct AttentionShape {
  int64_t batch, queries, keys, heads, key_heads, d_k, d_v;
  bool causal, lengths, slopes;
  float p;
};

const std::vector<AttentionShape>& attention_shapes() {
  static const std::vector<AttentionShape> list = {
      {1, 1, 1, 1, 1, 1, 1, false, false, false, 0},     {2, 5, 7, 2, 2, 8, 8, false, true, false, 0},
      {2, 7, 7, 4, 2, 16, 16, true, false, false, 0.2f}, {2, 9, 5, 2, 1, 3, 17, true, true, false, 0},
      {1, 17, 65, 3, 3, 33, 15, true, true, true, 0.5f}, {3, 33, 129, 2, 2, 64, 64, false, true, true, 0},
      {0, 5, 5, 2, 2, 8, 8, true, false, false, 0},      {1, 65, 65, 1, 1, 64, 64, true, false, false, 0}};
  return list;
}

std::string describe(const AttentionShape& s) {
  return label(Shape{s.batch, s.queries, s.keys, s.heads, s.d_k, s.d_v}) + on(s.causal, "causal") +
         on(s.lengths, "lengths") + on(s.slopes, "slopes") + on(s.p > 0, "dropout");
}

/// Fills what both passes share. Lengths reach from 0, which hides every key, to all of them.
template <class Args>
void attention_inputs(Workspace& w, const AttentionShape& s, Args& op) {
  op.q = w.input({s.batch, s.queries, s.heads, s.d_k}, kRows);
  op.k = w.input({s.batch, s.keys, s.key_heads, s.d_k}, kRows);
  op.v = w.input({s.batch, s.keys, s.key_heads, s.d_v}, kRows);
  if (s.lengths) {
    op.mask.lengths = w.integers({s.batch}, 0, s.keys + 1);
    set_values(op.mask.lengths, [&](int64_t b) { return double(s.keys * b / std::max<int64_t>(1, s.batch - 1)); });
  }
  if (s.slopes) op.mask.slopes = w.input({s.heads}, {.dtype = DType::f32, .scale = 0.1});
  op.mask.causal = s.causal;
  op.scale = 1 / std::sqrt(double(s.d_k));
  op.p = s.p;
  op.random = w.random();
}

AttentionForward attention_forward(Workspace& w, const AttentionShape& s, bool weights) {
  AttentionForward op;
  attention_inputs(w, s, op);
  op.o = w.output("o", {s.batch, s.queries, s.heads, s.d_v}, kRows);
  op.lse = w.output("lse", {s.batch, s.heads, s.queries}, {.dtype = w.master()});
  if (weights) op.weights = w.output("weights", {s.batch, s.heads, s.queries, s.keys}, {.dtype = w.master()});
  return op;
}

AttentionBackward attention_backward(Workspace& w, const AttentionShape& s, bool accumulate) {
  AttentionBackward op;
  attention_inputs(w, s, op);
  op.o = w.input({s.batch, s.queries, s.heads, s.d_v}, kRows);
  op.lse = w.input({s.batch, s.heads, s.queries}, {.dtype = w.master()});
  AttentionForward forward;
  forward.q = op.q, forward.k = op.k, forward.v = op.v, forward.o = op.o, forward.lse = op.lse;
  forward.mask = op.mask, forward.scale = op.scale, forward.p = op.p, forward.random = op.random;
  implementations<AttentionForward>().back().run(forward);
  op.d_o = w.input(op.o.shape(), kRows);
  const TensorOptions to{.freedom = Freedom::rows, .accumulate = accumulate};
  op.dq = w.output("dq", op.q.shape(), to);
  op.dk = w.output("dk", op.k.shape(), to);
  op.dv = w.output("dv", op.v.shape(), to);
  op.accumulate_dq = op.accumulate_dk = op.accumulate_dv = accumulate;
  return op;
}

std::vector<Operation> attention() {
  std::vector<Case<AttentionForward>> forwards;
  std::vector<Case<AttentionBackward>> backwards;
  for (const AttentionShape& s : attention_shapes())
    for (const bool flag : {false, true}) {
      // Probabilities may be rounded to bf16 on their way into the second product, so twice the bound.
      forwards.push_back(
          {describe(s) + on(flag, "weights"), [=](Workspace& w) { return attention_forward(w, s, flag); }, 2});
      backwards.push_back(
          {describe(s) + on(flag, "accumulate"), [=](Workspace& w) { return attention_backward(w, s, flag); }, 2});
    }
  return {operation(forwards), operation(backwards)};
}

struct AdditiveShape {
  int64_t batch, queries, keys, width;
};
constexpr AdditiveShape kAdditives[] = {{1, 1, 1, 1}, {2, 3, 5, 17}, {3, 7, 9, 64}, {1, 5, 33, 129}, {0, 3, 3, 8}};

std::vector<Operation> additive_scores() {
  std::vector<Case<AdditiveScores>> forwards;
  std::vector<Case<AdditiveScoresBackward>> backwards;
  for (const auto& [batch, queries, keys, width] : kAdditives) {
    const Shape q = {batch, queries, width}, k = {batch, keys, width}, v = {width}, e = {batch, queries, keys};
    forwards.push_back({label(q) + label(k), [=](Workspace& w) {
                          const Tensor qs = w.input(q), ks = w.input(k), vs = w.input(v, {.dtype = w.master()});
                          return AdditiveScores{qs, ks, vs, w.output("e", e)};
                        }});
    for (const bool accumulate : {false, true})
      for (const bool all : {false, true})
        backwards.push_back({label(q) + label(k) + on(accumulate, "accumulate") + on(all, "all"), [=](Workspace& w) {
                               AdditiveScoresBackward op;
                               op.q = w.input(q), op.k = w.input(k), op.v = w.input(v, {.dtype = w.master()});
                               op.de = w.input(e);
                               if (all) op.dq = w.output("dq", q, {.accumulate = accumulate});
                               op.dk = w.output("dk", k, {.accumulate = accumulate});
                               if (all) op.dv = w.output("dv", v, {.accumulate = accumulate, .dtype = w.master()});
                               op.accumulate_dq = op.accumulate_dk = op.accumulate_dv = accumulate;
                               return op;
                             }});
  }
  return {operation(forwards), operation(backwards)};
}

}  // namespace

std::vector<Operation> product_operations() {
  std::vector<Operation> list = {gemm()};
  for (const auto& part : {attention(), additive_scores()}) list.insert(list.end(), part.begin(), part.end());
  return list;
}

}  // namespace rapt::testing
