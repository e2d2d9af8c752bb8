// Every fused primitive against its plain definition, value and gradient, in each dtype and with each implementation of
// the kernels that this machine has.
#include <kernels/kernels.hpp>
#include <ops/composite.hpp>
#include <rapt/autograd/tape.hpp>
#include <support/compare.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace rapt {
namespace {

using testing::random_tensor;
using testing::relative_error;

enum class Role { activation, weight };
struct Input {
  Shape shape;
  Role role = Role::activation;
};
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

struct FusedCase {
  std::string name;
  std::vector<Input> inputs;
  Function fused, plain;
};

Tensor integers(const std::vector<int32_t>& values) { return Tensor::from(values, {int64_t(values.size())}); }

constexpr Philox kRandom{11, 5};

void add_products(std::vector<FusedCase>& cases) {
  const auto W = Role::weight;
  for (const Activation act : {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh,
                               Activation::silu, Activation::tanh, Activation::sigmoid})
    cases.push_back({"linear, activation " + std::to_string(int(act)),
                     {{{2, 5, 7}}, {{9, 7}, W}, {{9}, W}},
                     [act](const Tensors& x) { return Tensors{linear(x[0], x[1], x[2], act)}; },
                     [act](const Tensors& x) { return Tensors{composite::linear(x[0], x[1], x[2], act)}; }});
  cases.push_back({"linear without bias",
                   {{{33, 16}}, {{24, 16}, W}},
                   [](const Tensors& x) { return Tensors{linear(x[0], x[1])}; },
                   [](const Tensors& x) { return Tensors{composite::linear(x[0], x[1])}; }});
}

void add_norms(std::vector<FusedCase>& cases) {
  const auto W = Role::weight;
  for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
    const std::string name = kind == NormKind::layer ? "layer norm" : "rms norm";
    const NormOptions options{kind, 1e-5};
    const auto bias = [kind](const Tensors& x, size_t at) { return kind == NormKind::layer ? x[at] : Tensor{}; };
    cases.push_back({name,
                     {{{3, 5, 19}}, {{19}, W}, {{19}, W}},
                     [=](const Tensors& x) { return Tensors{norm(x[0], x[1], bias(x, 2), options)}; },
                     [=](const Tensors& x) { return Tensors{composite::norm(x[0], x[1], bias(x, 2), options)}; }});
    for (const float p : {0.0f, 0.25f}) {
      const std::vector<Input> inputs{{{3, 5, 16}}, {{3, 5, 16}}, {{16}, W}, {{16}, W}};
      cases.push_back({"add and " + name + ", dropout " + std::to_string(p), inputs,
                       [=](const Tensors& x) {
                         const AddNorm r = add_norm(x[0], x[1], x[2], bias(x, 3), options, p, kRandom);
                         return Tensors{r.y, r.sum};
                       },
                       [=](const Tensors& x) {
                         const AddNorm r = composite::add_norm(x[0], x[1], x[2], bias(x, 3), options, p, kRandom);
                         return Tensors{r.y, r.sum};
                       }});
    }
  }
}

void add_elementwise(std::vector<FusedCase>& cases) {
  cases.push_back({"dropout",
                   {{{7, 41}}},
                   [](const Tensors& x) { return Tensors{dropout(x[0], 0.3f, kRandom)}; },
                   [](const Tensors& x) { return Tensors{composite::dropout(x[0], 0.3f, kRandom)}; }});
  cases.push_back({"swiglu",
                   {{{3, 4, 22}}},
                   [](const Tensors& x) { return Tensors{swiglu(x[0])}; },
                   [](const Tensors& x) { return Tensors{composite::swiglu(x[0])}; }});
  for (const bool interleaved : {false, true})
    cases.push_back({interleaved ? "rotary, interleaved" : "rotary, halves",
                     {{{2, 5, 3, 8}}},
                     [=](const Tensors& x) { return Tensors{rotary(x[0], 1000, 3, interleaved)}; },
                     [=](const Tensors& x) { return Tensors{composite::rotary(x[0], 1000, 3, interleaved)}; }});
  cases.push_back({"log softmax",
                   {{{6, 13}}},
                   [](const Tensors& x) { return Tensors{log_softmax(x[0])}; },
                   [](const Tensors& x) { return Tensors{composite::log_softmax(x[0])}; }});
  cases.push_back({"softmax",
                   {{{6, 13}}},
                   [](const Tensors& x) { return Tensors{softmax(x[0])}; },
                   [](const Tensors& x) { return Tensors{composite::softmax(x[0])}; }});
  const Tensor lengths = integers({4, 0, 13});
  cases.push_back({"softmax with lengths",
                   {{{3, 2, 13}}},
                   [=](const Tensors& x) { return Tensors{softmax(x[0], lengths)}; },
                   [=](const Tensors& x) { return Tensors{composite::softmax(x[0], lengths)}; }});
}

void add_lookups(std::vector<FusedCase>& cases) {
  const auto W = Role::weight;
  const Tensor ids = integers({3, 0, 3, 10, 5, 5}).view({2, 3});
  cases.push_back({"gather rows",
                   {{{11, 9}}},
                   [=](const Tensors& x) { return Tensors{gather_rows(x[0], ids.view({6}))}; },
                   [=](const Tensors& x) { return Tensors{composite::gather_rows(x[0], ids.view({6}))}; }});
  // The first input only tells which dtype the result has.
  const auto options = [](const Tensors& x) {
    return EmbeddingOptions{.scale = 2.5, .positions = x[2], .offset = 1, .dtype = x[0].dtype()};
  };
  cases.push_back({"embedding with positions",
                   {{{1}}, {{11, 9}, W}, {{7, 9}, W}},
                   [=](const Tensors& x) {
                     return Tensors{embedding(ids, x[1], options(x)), affine(x[0], 1)};
                   },
                   [=](const Tensors& x) {
                     return Tensors{composite::embedding(ids, x[1], options(x)), affine(x[0], 1)};
                   }});
}

void add_losses(std::vector<FusedCase>& cases) {
  const auto W = Role::weight;
  const Tensor targets = integers({3, 7, 0, 16, 7, 2, 2});
  for (const double smoothing : {0.0, 0.1}) {
    CrossEntropyOptions options;
    options.smoothing = smoothing;
    options.ignore = 7;
    const std::string name = "cross entropy, smoothing " + std::to_string(smoothing);
    cases.push_back({name,
                     {{{7, 17}}},
                     [=](const Tensors& x) { return Tensors{cross_entropy(x[0], targets, options)}; },
                     [=](const Tensors& x) { return Tensors{composite::cross_entropy(x[0], targets, options)}; }});
    for (const int64_t chunk : {0, 3}) {
      options.chunk_rows = chunk;
      cases.push_back(
          {"projected " + name + ", chunks of " + std::to_string(chunk),
           {{{7, 12}}, {{17, 12}, W}, {{17}, W}},
           [=](const Tensors& x) { return Tensors{projected_cross_entropy(x[0], x[1], x[2], targets, options)}; },
           [=](const Tensors& x) {
             return Tensors{composite::projected_cross_entropy(x[0], x[1], x[2], targets, options)};
           }});
    }
  }
  CrossEntropyOptions options;
  options.normaliser = 50;
  cases.push_back({"projected cross entropy without bias, own normaliser",
                   {{{7, 12}}, {{17, 12}, W}},
                   [=](const Tensors& x) { return Tensors{projected_cross_entropy(x[0], x[1], {}, targets, options)}; },
                   [=](const Tensors& x) {
                     return Tensors{composite::projected_cross_entropy(x[0], x[1], {}, targets, options)};
                   }});
}

void add_attention(std::vector<FusedCase>& cases) {
  const std::vector<Input> self{{{2, 6, 4, 8}}, {{2, 6, 4, 8}}, {{2, 6, 4, 8}}};
  const std::vector<Input> shared{{{2, 6, 4, 8}}, {{2, 6, 2, 8}}, {{2, 6, 2, 5}}};
  const std::vector<Input> cross{{{2, 3, 4, 8}}, {{2, 7, 4, 8}}, {{2, 7, 4, 8}}};
  const auto with = [&](const std::string& name, const std::vector<Input>& inputs, const AttentionOptions& options) {
    cases.push_back({"attention, " + name, inputs,
                     [=](const Tensors& x) { return Tensors{attention(x[0], x[1], x[2], options)}; },
                     [=](const Tensors& x) { return Tensors{composite::attention(x[0], x[1], x[2], options)}; }});
  };
  AttentionOptions options;
  with("plain", self, options);
  with("of other lengths", cross, options);
  with("grouped heads", shared, options);
  options.causal = true;
  with("causal", self, options);
  with("causal, the last queries", cross, options);
  options.lengths = integers({4, 6});
  with("causal and padded, grouped", shared, options);
  options.causal = false;
  options.lengths = integers({0, 5});
  with("a sentence of length 0", self, options);
  options.alibi = Tensor::from(std::vector<float>{0.5f, 0.25f, 0.125f, 0.0625f}, {4});
  with("alibi and padding", self, options);
  options.causal = true;
  options.p = 0.3f;
  options.random = kRandom;
  options.scale = 0.7;
  with("everything at once", shared, options);
  cases.push_back({"additive scores",
                   {{{2, 3, 9}}, {{2, 5, 9}}, {{9}, Role::weight}},
                   [](const Tensors& x) { return Tensors{additive_scores(x[0], x[1], x[2])}; },
                   [](const Tensors& x) { return Tensors{composite::additive_scores(x[0], x[1], x[2])}; }});
}

/// Weights that are views: a column, a transposed table.
void add_strided_weights(std::vector<FusedCase>& cases) {
  const auto W = Role::weight;
  const auto column = [](const Tensor& t) { return t.select(1, 1); };
  cases.push_back(
      {"linear with a column as bias",
       {{{5, 7}}, {{7, 9}, W}, {{9, 3}, W}},
       [=](const Tensors& x) { return Tensors{linear(x[0], x[1].transpose(0, 1), column(x[2]))}; },
       [=](const Tensors& x) { return Tensors{composite::linear(x[0], x[1].transpose(0, 1), column(x[2]))}; }});
  cases.push_back({"norm with columns as gain and bias",
                   {{{5, 7}}, {{7, 2}, W}, {{7, 3}, W}},
                   [=](const Tensors& x) { return Tensors{norm(x[0], column(x[1]), column(x[2]), {})}; },
                   [=](const Tensors& x) { return Tensors{composite::norm(x[0], column(x[1]), column(x[2]), {})}; }});
  cases.push_back({"additive scores with a column as v",
                   {{{2, 3, 9}}, {{2, 5, 9}}, {{9, 2}, W}},
                   [=](const Tensors& x) { return Tensors{additive_scores(x[0], x[1], column(x[2]))}; },
                   [=](const Tensors& x) { return Tensors{composite::additive_scores(x[0], x[1], column(x[2]))}; }});
  const Tensor ids = integers({3, 0, 3, 1});
  cases.push_back({"projected cross entropy with views of weights",
                   {{{4, 12}}, {{12, 17}, W}, {{17, 2}, W}},
                   [=](const Tensors& x) {
                     return Tensors{projected_cross_entropy(x[0], x[1].transpose(0, 1), column(x[2]), ids)};
                   },
                   [=](const Tensors& x) {
                     return Tensors{composite::projected_cross_entropy(x[0], x[1].transpose(0, 1), column(x[2]), ids)};
                   }});
  const auto options = [](const Tensors& x) {
    return EmbeddingOptions{.positions = x[2].transpose(0, 1), .dtype = x[0].dtype()};
  };
  cases.push_back({"embedding with transposed tables",
                   {{{1}}, {{9, 5}, W}, {{9, 6}, W}},
                   [=](const Tensors& x) {
                     return Tensors{embedding(ids, x[1].transpose(0, 1), options(x)), affine(x[0], 1)};
                   },
                   [=](const Tensors& x) {
                     return Tensors{composite::embedding(ids, x[1].transpose(0, 1), options(x)), affine(x[0], 1)};
                   }});
}

void add_cells(std::vector<FusedCase>& cases) {
  for (const Cell cell : {Cell::rnn, Cell::lstm, Cell::gru})
    for (const bool ended : {false, true}) {
      const int64_t B = 3, H = 10, G = (cell == Cell::rnn ? 1 : cell == Cell::lstm ? 4 : 3) * H;
      const Tensor lengths = ended ? integers({2, 5, 3}) : Tensor{};
      const auto outputs = [cell](const CellState& s) { return cell == Cell::lstm ? Tensors{s.h, s.c} : Tensors{s.h}; };
      std::vector<Input> inputs{{{B, G}}, {{B, G}}, {{B, H}}};
      if (cell == Cell::lstm) inputs.push_back({{B, H}});
      const auto state = [](const Tensors& x) { return CellState{x[2], x.size() > 3 ? x[3] : Tensor{}}; };
      cases.push_back(
          {"cell " + std::to_string(int(cell)) + (ended ? ", some rows ended" : ""), inputs,
           [=](const Tensors& x) { return outputs(cell_step(cell, x[0], x[1], state(x), lengths, 2)); },
           [=](const Tensors& x) { return outputs(composite::cell_step(cell, x[0], x[1], state(x), lengths, 2)); }});
    }
}

/// Sizes beyond one block of any kernel, none of them round.
void add_large(std::vector<FusedCase>& cases) {
  const auto W = Role::weight;
  cases.push_back({"large linear",
                   {{{3, 47, 131}}, {{203, 131}, W}, {{203}, W}},
                   [](const Tensors& x) { return Tensors{linear(x[0], x[1], x[2], Activation::gelu)}; },
                   [](const Tensors& x) { return Tensors{composite::linear(x[0], x[1], x[2], Activation::gelu)}; }});
  cases.push_back({"large add and norm",
                   {{{37, 517}}, {{37, 517}}, {{517}, W}, {{517}, W}},
                   [](const Tensors& x) {
                     const AddNorm r = add_norm(x[0], x[1], x[2], x[3], {}, 0.1f, kRandom);
                     return Tensors{r.y, r.sum};
                   },
                   [](const Tensors& x) {
                     const AddNorm r = composite::add_norm(x[0], x[1], x[2], x[3], {}, 0.1f, kRandom);
                     return Tensors{r.y, r.sum};
                   }});
  AttentionOptions options;
  options.lengths = integers({150, 97});
  options.causal = true;
  options.alibi = Tensor::from(std::vector<float>{0.5f, 0.25f, 0.125f, 0.0625f}, {4});
  options.p = 0.2f;
  options.random = kRandom;
  cases.push_back({"large attention",
                   {{{2, 77, 4, 20}}, {{2, 150, 2, 20}}, {{2, 150, 2, 12}}},
                   [=](const Tensors& x) { return Tensors{attention(x[0], x[1], x[2], options)}; },
                   [=](const Tensors& x) { return Tensors{composite::attention(x[0], x[1], x[2], options)}; }});
  std::vector<int32_t> labels;
  for (int32_t n = 0; n < 71; ++n) labels.push_back(n * 37 % 301);
  const Tensor targets = integers(labels);
  CrossEntropyOptions loss;
  loss.smoothing = 0.1;
  loss.ignore = labels[9];
  loss.chunk_rows = 32;
  cases.push_back(
      {"large projected cross entropy",
       {{{71, 67}}, {{301, 67}, W}, {{301}, W}},
       [=](const Tensors& x) { return Tensors{projected_cross_entropy(x[0], x[1], x[2], targets, loss)}; },
       [=](const Tensors& x) { return Tensors{composite::projected_cross_entropy(x[0], x[1], x[2], targets, loss)}; }});
}

const std::vector<FusedCase>& all_cases() {
  static const std::vector<FusedCase> list = [] {
    std::vector<FusedCase> cases;
    add_products(cases);
    add_norms(cases);
    add_elementwise(cases);
    add_lookups(cases);
    add_losses(cases);
    add_attention(cases);
    add_strided_weights(cases);
    add_cells(cases);
    add_large(cases);
    return cases;
  }();
  return list;
}

struct Outcome {
  Tensors values, grads;
};

/// Runs f on fresh leaves; the outputs are weighed with random numbers, so that every element has its own gradient.
Outcome run(const FusedCase& c, const Function& f, DType dtype) {
  Tensors x;
  for (const Input& input : c.inputs) {
    const DType t = input.role == Role::weight ? wide(dtype) : dtype;
    x.push_back(random_tensor(input.shape, t, Philox{seed_for(3, c.name.c_str()), x.size()}));
    require_grad(x.back());
  }
  Outcome outcome{f(x), {}};
  Tensor loss;
  for (size_t i = 0; i < outcome.values.size(); ++i) {
    const Tensor y = cast(outcome.values[i], wide(dtype));
    const Tensor part = sum(mul(y, random_tensor(y.shape(), y.dtype(), Philox{4, i})));
    loss = loss ? add(loss, part) : part;
  }
  backward(loss);
  for (const Tensor& input : x) outcome.grads.push_back(grad(input));
  return outcome;
}

double bound(DType dtype) { return dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 1e-5 : 2e-2; }

void compare_all(DType dtype) {
  for (const FusedCase& c : all_cases()) {
    SCOPED_TRACE(c.name + ", " + to_string(dtype));
    const Outcome fused = run(c, c.fused, dtype), plain = run(c, c.plain, dtype);
    ASSERT_EQ(fused.values.size(), plain.values.size());
    for (size_t i = 0; i < fused.values.size(); ++i)
      EXPECT_LE(relative_error(fused.values[i], plain.values[i]), bound(dtype)) << "in result " << i;
    for (size_t i = 0; i < fused.grads.size(); ++i)
      EXPECT_LE(relative_error(fused.grads[i], plain.grads[i]), bound(dtype)) << "in the gradient of input " << i;
  }
}

/// "op:name" for every operation that has an implementation of this name here.
std::string everywhere(const std::string& name) {
  std::string spec;
  for (const auto& row : kernels::kernel_table())
    for (const auto& entry : row.implementations)
      if (entry.name == name && entry.available) spec += (spec.empty() ? "" : ",") + row.op + ":" + name;
  return spec;
}

class FusedEqualsComposite : public ::testing::TestWithParam<DType> {};

TEST_P(FusedEqualsComposite, WithTheBestKernels) { compare_all(GetParam()); }

TEST_P(FusedEqualsComposite, WithEveryImplementation) {
  std::set<std::string> names;
  for (const auto& row : kernels::kernel_table())
    for (const auto& entry : row.implementations)
      if (entry.available) names.insert(entry.name);
  for (const std::string& name : names) {
    SCOPED_TRACE("implementation " + name);
    kernels::force_implementations(everywhere(name));
    compare_all(GetParam());
    kernels::force_implementations("");
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, FusedEqualsComposite, ::testing::Values(DType::f64, DType::f32, DType::bf16),
                         [](const auto& info) { return to_string(info.param); });

}  // namespace
}  // namespace rapt
