// No rows, no positions, no sentences: operations give the empty result of the right shape, and the gradients of
// weights are 0. (Models refuse empty batches before it comes to this.)
#include <kernels/kernels.hpp>
#include <ops/support.hpp>
#include <rapt/autograd/tape.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace rapt {
namespace {

using Tensors = std::vector<Tensor>;
struct EmptyCase {
  std::string name;
  std::vector<Shape> activations, weights;
  std::function<Tensor(const Tensors& x, const Tensors& w)> f;
  Shape result;
};

Tensor no_ids(const Shape& shape) { return Tensor::zeros(shape, DType::i32); }

void add_rows(std::vector<EmptyCase>& cases) {
  for (const Shape& lead : {Shape{0}, Shape{0, 3}, Shape{2, 0}}) {
    const auto with = [&](int64_t d) { return lead.inserted(lead.rank(), d); };
    for (const Activation act : {Activation::none, Activation::gelu})
      cases.push_back({"linear",
                       {with(4)},
                       {{5, 4}, {5}},
                       [=](const Tensors& x, const Tensors& w) { return linear(x[0], w[0], w[1], act); },
                       with(5)});
    for (const NormKind kind : {NormKind::layer, NormKind::rms})
      cases.push_back({"add_norm",
                       {with(4), with(4)},
                       {{4}, {4}},
                       [=](const Tensors& x, const Tensors& w) {
                         const Tensor bias = kind == NormKind::layer ? w[1] : Tensor{};
                         return add_norm(x[0], x[1], w[0], bias, {kind, 1e-5}, 0.1f).y;
                       },
                       with(4)});
    cases.push_back(
        {"softmax", {with(4)}, {}, [](const Tensors& x, const Tensors&) { return softmax(x[0]); }, with(4)});
    cases.push_back(
        {"log_softmax", {with(4)}, {}, [](const Tensors& x, const Tensors&) { return log_softmax(x[0]); }, with(4)});
    cases.push_back({"swiglu", {with(4)}, {}, [](const Tensors& x, const Tensors&) { return swiglu(x[0]); }, with(2)});
    cases.push_back({"tanh", {with(4)}, {}, [](const Tensors& x, const Tensors&) { return tanh(x[0]); }, with(4)});
    cases.push_back(
        {"dropout", {with(4)}, {}, [](const Tensors& x, const Tensors&) { return dropout(x[0], 0.5f, {}); }, with(4)});
    cases.push_back(
        {"mul", {with(4), {4}}, {}, [](const Tensors& x, const Tensors&) { return mul(x[0], x[1]); }, with(4)});
    cases.push_back(
        {"div", {with(4), {4}}, {}, [](const Tensors& x, const Tensors&) { return div(x[1], x[0]); }, with(4)});
    cases.push_back({"sum", {with(4)}, {}, [](const Tensors& x, const Tensors&) { return sum(x[0]); }, Shape{}});
    cases.push_back({"concat",
                     {with(4), with(3)},
                     {},
                     [](const Tensors& x, const Tensors&) {
                       return concat({x[0], x[1]}, -1);
                     },
                     with(7)});
    cases.push_back({"embedding",
                     {},
                     {{7, 4}, {5, 4}},
                     [=](const Tensors&, const Tensors& w) {
                       return cast(embedding(no_ids(lead), w[0], {.positions = w[1], .dtype = w[0].dtype()}),
                                   w[0].dtype());
                     },
                     with(4)});
    cases.push_back({"cross_entropy",
                     {with(4)},
                     {},
                     [=](const Tensors& x, const Tensors&) { return cross_entropy(x[0], no_ids(lead)); },
                     Shape{}});
    cases.push_back(
        {"projected_cross_entropy",
         {with(4)},
         {{5, 4}, {5}},
         [=](const Tensors& x, const Tensors& w) { return projected_cross_entropy(x[0], w[0], w[1], no_ids(lead)); },
         Shape{}});
  }
}

void add_products(std::vector<EmptyCase>& cases) {
  const auto product = [](const Tensors& x, const Tensors&) { return matmul(x[0], x[1]); };
  cases.push_back({"matmul without batches", {{0, 2, 3}, {0, 3, 4}}, {}, product, {0, 2, 4}});
  cases.push_back({"matmul without rows", {{2, 0, 3}, {2, 3, 4}}, {}, product, {2, 0, 4}});
  cases.push_back({"matmul without columns", {{2, 3, 4}, {2, 4, 0}}, {}, product, {2, 3, 0}});
  cases.push_back({"matmul over nothing", {{2, 3, 0}, {2, 0, 4}}, {}, product, {2, 3, 4}});
  cases.push_back(
      {"sum over nothing", {{2, 0, 3}}, {}, [](const Tensors& x, const Tensors&) { return sum(x[0], 1); }, {2, 1, 3}});
  cases.push_back({"gather_rows",
                   {{5, 4}},
                   {},
                   [](const Tensors& x, const Tensors&) { return gather_rows(x[0], no_ids({0})); },
                   {0, 4}});
  cases.push_back({"softmax with lengths",
                   {{0, 3, 4}},
                   {},
                   [](const Tensors& x, const Tensors&) { return softmax(x[0], no_ids({0})); },
                   {0, 3, 4}});
}

void add_sequences(std::vector<EmptyCase>& cases) {
  struct Sizes {
    int64_t B, Tq, Tk;
  };
  for (const auto& [B, Tq, Tk] : {Sizes{0, 3, 3}, Sizes{2, 0, 3}, Sizes{2, 3, 0}, Sizes{2, 0, 0}}) {
    for (const bool causal : {false, true}) {
      if (causal && Tk < Tq) continue;
      AttentionOptions options;
      options.causal = causal;
      options.lengths = no_ids({B});
      options.p = 0.1f;
      cases.push_back({"attention",
                       {{B, Tq, 2, 8}, {B, Tk, 2, 8}, {B, Tk, 2, 8}},
                       {},
                       [=](const Tensors& x, const Tensors&) { return attention(x[0], x[1], x[2], options); },
                       {B, Tq, 2, 8}});
    }
    cases.push_back({"additive_scores",
                     {{B, Tq, 4}, {B, Tk, 4}},
                     {{4}},
                     [](const Tensors& x, const Tensors& w) { return additive_scores(x[0], x[1], w[0]); },
                     {B, Tq, Tk}});
    if (B * Tq == 0)
      cases.push_back({"rotary",
                       {{B, Tq, 2, 4}},
                       {},
                       [](const Tensors& x, const Tensors&) { return rotary(x[0]); },
                       {B, Tq, 2, 4}});
  }
  for (const Cell cell : {Cell::rnn, Cell::lstm, Cell::gru}) {
    const int64_t G = 4 * (cell == Cell::rnn ? 1 : cell == Cell::lstm ? 4 : 3);
    cases.push_back({"cell",
                     {{0, G}, {0, G}, {0, 4}, {0, 4}},
                     {},
                     [=](const Tensors& x, const Tensors&) {
                       return cell_step(cell, x[0], x[1], {x[2], x[3]}, no_ids({0})).h;
                     },
                     {0, 4}});
  }
}

void run_all(DType dtype) {
  std::vector<EmptyCase> cases;
  add_rows(cases);
  add_products(cases);
  add_sequences(cases);
  for (const EmptyCase& c : cases) {
    Tensors x, w;
    for (const Shape& shape : c.activations) x.push_back(Tensor::full(shape, 0.5, dtype));
    for (const Shape& shape : c.weights) w.push_back(Tensor::full(shape, 0.5, wide(dtype)));
    SCOPED_TRACE(c.name + " to " + to_string(c.result) + ", " + to_string(dtype));
    for (Tensors* list : {&x, &w})
      for (Tensor& t : *list) require_grad(t);
    const Tensor y = c.f(x, w);
    EXPECT_EQ(y.shape(), c.result);
    for (const double value : y.to_vector()) EXPECT_EQ(value, 0);  // a sum over nothing
    ASSERT_NO_THROW(backward(y, Tensor::full(y.shape(), 1, y.dtype())));
    for (const Tensors& list : {x, w})
      for (const Tensor& t : list)
        for (const double g : grad(t).to_vector()) EXPECT_EQ(g, 0) << "in a gradient of shape " << to_string(t.shape());
  }
}

TEST(Empty, EveryOperationWithEveryImplementation) {
  std::set<std::string> names;
  for (const auto& row : kernels::kernel_table())
    for (const auto& entry : row.implementations)
      if (entry.available) names.insert(entry.name);
  for (const std::string& name : names) {
    std::string spec;
    for (const auto& row : kernels::kernel_table())
      for (const auto& entry : row.implementations)
        if (entry.name == name && entry.available) spec += (spec.empty() ? "" : ",") + row.op + ":" + name;
    SCOPED_TRACE("implementation " + name);
    kernels::force_implementations(spec);
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) run_all(dtype);
    kernels::force_implementations("");
  }
}

TEST(Empty, ALossWithNoTargetThatCountsIsZero) {
  Tensor logits = Tensor::full({3, 5}, 0.5);
  require_grad(logits);
  CrossEntropyOptions options;
  options.ignore = 0;
  const Tensor loss = cross_entropy(logits, no_ids({3}), options);
  EXPECT_EQ(loss.item(), 0);
  backward(loss);
  EXPECT_EQ(grad(logits).to_vector(), std::vector<double>(15, 0.0));
}

}  // namespace
}  // namespace rapt
