// Every operation against central differences in f64.
#include <rapt/autograd/gradient_check.hpp>
#include <rapt/autograd/tape.hpp>
#include <rapt/ops/ops.hpp>
#include <support/compare.hpp>

#include <gtest/gtest.h>

#include <functional>

namespace rapt {
namespace {

using testing::random_tensor;
using testing::set_values;
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensors&)>;

constexpr double kBound = 1e-6;
constexpr Philox kRandom{21, 8};

Tensors leaves(const std::vector<Shape>& shapes) {
  Tensors x;
  for (const Shape& shape : shapes) x.push_back(random_tensor(shape, DType::f64, Philox{9, x.size()}));
  return x;
}

/// Values in (0.5, 2.5): away from zero, where log, sqrt and division are smooth.
Tensor positive(const Shape& shape, uint64_t stream) {
  const Tensor t = Tensor::empty(shape, DType::f64);
  set_values(t, [&](int64_t n) { return 0.5 + 2 * Philox{5, stream}.uniform(uint64_t(n)); });
  return t;
}

/// One number in which every element of y has another weight.
Tensor weighed(const Tensor& y) { return sum(mul(y, random_tensor(y.shape(), DType::f64, Philox{6, 1}))); }

void expect_gradient(const std::string& name, const Tensors& inputs, const Function& f) {
  const GradientCheck check = check_gradient([&](const Tensors& x) { return weighed(f(x)); }, inputs);
  EXPECT_LT(check.worst, kBound) << name << ": " << check.where;
}

Tensor integers(const std::vector<int32_t>& values) { return Tensor::from(values, {int64_t(values.size())}); }

// ----------------------------------------------------------------------------------------------- one and two arguments

TEST(Gradient, FunctionsOfOneArgument) {
  struct Named {
    const char* name;
    Tensor (*f)(const Tensor&);
    bool positive = false;
  };
  const Named functions[] = {
      {"neg", neg},         {"exp", exp},           {"log", log, true},        {"sqrt", sqrt, true}, {"square", square},
      {"relu", relu},       {"gelu", gelu},         {"gelu_tanh", gelu_tanh},  {"silu", silu},       {"tanh", tanh},
      {"sigmoid", sigmoid}, {"softplus", softplus}, {"contiguous", contiguous}};
  for (const Named& n : functions) {
    const Tensor x = n.positive ? positive({3, 7}, 1) : leaves({{3, 7}})[0];
    expect_gradient(n.name, {x}, [&](const Tensors& t) { return n.f(t[0]); });
    expect_gradient(std::string(n.name) + " of a transposed tensor", {x},
                    [&](const Tensors& t) { return n.f(t[0].transpose(0, 1)); });
    expect_gradient(std::string(n.name) + " of a narrowed tensor", {x},
                    [&](const Tensors& t) { return n.f(t[0].narrow(1, 2, 3)); });
  }
  expect_gradient("affine", leaves({{3, 4}}), [](const Tensors& t) { return affine(t[0], -1.5, 0.25); });
  expect_gradient("dropout", leaves({{5, 9}}), [](const Tensors& t) { return dropout(t[0], 0.4f, kRandom); });
  expect_gradient("dropout of a transposed tensor", leaves({{5, 9}}),
                  [](const Tensors& t) { return dropout(t[0].transpose(0, 1), 0.4f, kRandom); });
}

TEST(Gradient, BroadcastingOfTwoArguments) {
  const std::pair<Shape, Shape> shapes[] = {{{3, 4}, {3, 4}},       {{3, 4}, {4}},         {{4}, {3, 4}},
                                            {{3, 4}, {3, 1}},       {{3, 1}, {1, 4}},      {{2, 3, 4}, {3, 1}},
                                            {{2, 1, 4}, {2, 3, 1}}, {{3, 4}, Shape{}},     {Shape{}, {2, 3}},
                                            {{1, 1}, {2, 3}},       {{2, 3, 4, 5}, {4, 1}}};
  for (const auto& [a, b] : shapes)
    for (auto f : {add, sub, mul, div})
      expect_gradient("two arguments " + to_string(a) + " and " + to_string(b), {positive(a, 1), positive(b, 2)},
                      [&](const Tensors& t) { return f(t[0], t[1]); });
}

TEST(Gradient, BroadcastingOfViews) {
  for (auto f : {add, sub, mul, div}) {
    expect_gradient("a transposed and b narrowed", {positive({4, 3}, 1), positive({3, 6}, 2)},
                    [&](const Tensors& t) { return f(t[0].transpose(0, 1), t[1].narrow(1, 1, 4)); });
    expect_gradient("a row repeated by selection", {positive({5, 4}, 1), positive({3, 4}, 2)},
                    [&](const Tensors& t) { return f(t[1], t[0].select(0, 2)); });
    expect_gradient("a column repeated by selection", {positive({4, 5}, 1), positive({3, 4}, 2)},
                    [&](const Tensors& t) { return f(t[0].select(1, 3), t[1]); });
  }
}

// ---------------------------------------------------------------------------------------------------- products, shapes

TEST(Gradient, Linear) {
  for (const Activation act : {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh,
                               Activation::silu, Activation::tanh, Activation::sigmoid}) {
    const std::string name = "linear, activation " + std::to_string(int(act));
    expect_gradient(name, leaves({{2, 3, 5}, {4, 5}, {4}}),
                    [=](const Tensors& t) { return linear(t[0], t[1], t[2], act); });
    expect_gradient(name + ", of a narrowed x", leaves({{2, 3, 9}, {4, 5}, {4}}),
                    [=](const Tensors& t) { return linear(t[0].narrow(-1, 3, 5), t[1], t[2], act); });
    expect_gradient(name + ", of a transposed x", leaves({{5, 3}, {4, 5}}),
                    [=](const Tensors& t) { return linear(t[0].transpose(0, 1), t[1], {}, act); });
  }
  expect_gradient("linear of one step of a sequence", leaves({{2, 3, 5}, {4, 5}, {4}}),
                  [](const Tensors& t) { return linear(t[0].select(1, 1), t[1], t[2]); });
  expect_gradient("linear of one feature", leaves({{3, 1}, {4, 1}}),
                  [](const Tensors& t) { return linear(t[0], t[1]); });
  expect_gradient("linear with x as its own weight", leaves({{4, 4}}),
                  [](const Tensors& t) { return linear(t[0], t[0]); });
}

TEST(Gradient, Matmul) {
  expect_gradient("matmul", leaves({{3, 4}, {4, 5}}), [](const Tensors& t) { return matmul(t[0], t[1]); });
  expect_gradient("in batches", leaves({{2, 2, 3, 4}, {2, 2, 4, 5}}),
                  [](const Tensors& t) { return matmul(t[0], t[1]); });
  expect_gradient("a transposed", leaves({{2, 4, 3}, {2, 4, 5}}),
                  [](const Tensors& t) { return matmul(t[0].transpose(1, 2), t[1]); });
  expect_gradient("b transposed", leaves({{2, 3, 4}, {2, 5, 4}}),
                  [](const Tensors& t) { return matmul(t[0], t[1].transpose(1, 2)); });
  expect_gradient("heads in the middle", leaves({{2, 3, 2, 4}, {2, 5, 2, 4}}),
                  [](const Tensors& t) { return matmul(t[0].transpose(1, 2), t[1].transpose(1, 2).transpose(2, 3)); });
  expect_gradient("no unit stride", leaves({{3, 4, 2}, {4, 5, 2}}),
                  [](const Tensors& t) { return matmul(t[0].select(2, 1), t[1].select(2, 0)); });
  expect_gradient("a vector as a column", leaves({{3, 4}, {4, 1}}),
                  [](const Tensors& t) { return matmul(t[0], t[1]); });
  expect_gradient("x times its own transpose", leaves({{3, 4}}),
                  [](const Tensors& t) { return matmul(t[0], t[0].transpose(0, 1)); });
}

TEST(Gradient, ShapesAndReductions) {
  expect_gradient("sum", leaves({{3, 4}}), [](const Tensors& t) { return sum(t[0]); });
  expect_gradient("sum of one number", leaves({Shape{}}), [](const Tensors& t) { return sum(t[0]); });
  expect_gradient("mean of a transposed tensor", leaves({{3, 4}}),
                  [](const Tensors& t) { return mean(t[0].transpose(0, 1)); });
  for (int axis = -3; axis < 3; ++axis)
    expect_gradient("sum over axis " + std::to_string(axis), leaves({{2, 3, 4}}),
                    [=](const Tensors& t) { return sum(t[0], axis); });
  expect_gradient("sum over an axis of a narrowed tensor", leaves({{2, 5, 4}}),
                  [](const Tensors& t) { return sum(t[0].narrow(1, 1, 3), 1); });
  for (int axis = 0; axis < 3; ++axis) {
    const Shape other = Shape{2, 3, 4}.with(axis, 5);
    expect_gradient("concat along axis " + std::to_string(axis), leaves({{2, 3, 4}, other}), [=](const Tensors& t) {
      return concat({t[0], t[1], t[0]}, axis);
    });
  }
  for (int axis = 0; axis < 3; ++axis)
    expect_gradient("stack along axis " + std::to_string(axis), leaves({{2, 3}, {3, 2}}), [=](const Tensors& t) {
      return stack({t[0], t[1].transpose(0, 1), t[0]}, axis);
    });
  expect_gradient("cast to its own type", leaves({{2, 3}}),
                  [](const Tensors& t) { return cast(square(t[0]), DType::f64); });
}

// -------------------------------------------------------------------------------------------------- rows and lookups

TEST(Gradient, Embedding) {
  const Tensor ids = integers({3, 0, 3, 4, 2, 2}).view({2, 3});
  expect_gradient("embedding", leaves({{5, 4}}),
                  [&](const Tensors& t) { return embedding(ids, t[0], {.scale = 1.5, .dtype = DType::f64}); });
  for (const int64_t offset : {0, 2})
    expect_gradient("with positions from " + std::to_string(offset), leaves({{5, 4}, {6, 4}}), [&](const Tensors& t) {
      return embedding(ids, t[0], {.scale = 2, .positions = t[1], .offset = offset, .dtype = DType::f64});
    });
  expect_gradient("one table for tokens and positions", leaves({{5, 4}}), [&](const Tensors& t) {
    return embedding(ids, t[0], {.scale = 2, .positions = t[0], .dtype = DType::f64});
  });
  expect_gradient("gather_rows", leaves({{5, 4}}), [&](const Tensors& t) { return gather_rows(t[0], ids.view({6})); });
  expect_gradient("gather_rows of a transposed table", leaves({{4, 5}}),
                  [&](const Tensors& t) { return gather_rows(t[0].transpose(0, 1), ids.view({6})); });
}

TEST(Gradient, Norms) {
  for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
    const NormOptions options{kind, 1e-5};
    const auto bias = [kind](const Tensors& t, size_t at) { return kind == NormKind::layer ? t[at] : Tensor{}; };
    expect_gradient("norm", leaves({{2, 3, 7}, {7}, {7}}),
                    [=](const Tensors& t) { return norm(t[0], t[1], bias(t, 2), options); });
    expect_gradient("norm of a transposed tensor", leaves({{7, 3}, {7}, {7}}),
                    [=](const Tensors& t) { return norm(t[0].transpose(0, 1), t[1], bias(t, 2), options); });
    for (const float p : {0.0f, 0.3f})
      for (const int used : {1, 2, 3}) {  // y, sum, both
        const auto f = [=](const Tensors& t) {
          const AddNorm r = add_norm(t[0], t[1], t[2], bias(t, 3), options, p, kRandom);
          return used == 1 ? r.y : used == 2 ? r.sum : mul(r.y, r.sum);
        };
        expect_gradient("add_norm, results used: " + std::to_string(used), leaves({{3, 7}, {3, 7}, {7}, {7}}), f);
      }
    expect_gradient("add_norm of x with itself", leaves({{3, 7}, {7}, {7}}),
                    [=](const Tensors& t) { return add_norm(t[0], t[0], t[1], bias(t, 2), options, 0.3f, kRandom).y; });
  }
}

TEST(Gradient, Softmax) {
  const Tensor lengths = integers({3, 0, 5});
  expect_gradient("softmax", leaves({{2, 3, 5}}), [](const Tensors& t) { return softmax(t[0]); });
  expect_gradient("with lengths", leaves({{3, 2, 5}}), [&](const Tensors& t) { return softmax(t[0], lengths); });
  expect_gradient("of a transposed tensor", leaves({{5, 3}}),
                  [](const Tensors& t) { return softmax(t[0].transpose(0, 1)); });
  expect_gradient("log_softmax", leaves({{3, 5}}), [](const Tensors& t) { return log_softmax(t[0]); });
}

TEST(Gradient, SwigluAndRotary) {
  expect_gradient("swiglu", leaves({{2, 3, 8}}), [](const Tensors& t) { return swiglu(t[0]); });
  expect_gradient("swiglu of a narrowed tensor", leaves({{3, 9}}),
                  [](const Tensors& t) { return swiglu(t[0].narrow(1, 1, 6)); });
  for (const bool interleaved : {false, true}) {
    expect_gradient("rotary", leaves({{2, 3, 2, 6}}),
                    [=](const Tensors& t) { return rotary(t[0], 100, 2, interleaved); });
    expect_gradient("rotary of a part of each row", leaves({{2, 3, 12}}), [=](const Tensors& t) {
      return rotary(t[0].narrow(-1, 4, 8).view({2, 3, 2, 4}), 100, 0, interleaved);
    });
    expect_gradient("rotary of a transposed tensor", leaves({{2, 6, 2, 3}}),
                    [=](const Tensors& t) { return rotary(t[0].transpose(1, 3), 100, 0, interleaved); });
  }
}

// ------------------------------------------------------------------------------------- losses, attention, recurrence

TEST(Gradient, Losses) {
  const Tensor targets = integers({1, 4, 0, 4});
  for (const double smoothing : {0.0, 0.2})
    for (const int32_t ignore : {-1, 4}) {
      CrossEntropyOptions options;
      options.smoothing = smoothing;
      options.ignore = ignore;
      expect_gradient("cross_entropy", leaves({{2, 2, 6}}), [&](const Tensors& t) {
        return cross_entropy(t[0], targets.view({2, 2}), options);
      });
      expect_gradient("cross_entropy of transposed logits", leaves({{6, 4}}),
                      [&](const Tensors& t) { return cross_entropy(t[0].transpose(0, 1), targets, options); });
      for (const int64_t chunk : {0, 1, 3}) {
        options.chunk_rows = chunk;
        expect_gradient("projected_cross_entropy", leaves({{4, 3}, {6, 3}, {6}}),
                        [&](const Tensors& t) { return projected_cross_entropy(t[0], t[1], t[2], targets, options); });
      }
      expect_gradient("projected_cross_entropy, table used twice", leaves({{6, 3}}), [&](const Tensors& t) {
        const Tensor x = embedding(targets, t[0], {.dtype = DType::f64});
        return projected_cross_entropy(x, t[0], {}, targets, options);
      });
    }
  expect_gradient("binary_cross_entropy", {leaves({{3, 4}})[0], positive({3, 4}, 2)},
                  [](const Tensors& t) { return binary_cross_entropy(t[0], t[1]); });
  expect_gradient("mean_squared_error", leaves({{3, 4}, {3, 4}}),
                  [](const Tensors& t) { return mean_squared_error(t[0], t[1]); });
}

TEST(Gradient, Attention) {
  const auto self = [] { return leaves({{2, 4, 4, 3}, {2, 4, 4, 3}, {2, 4, 4, 3}}); };
  const auto shared = [] { return leaves({{2, 4, 4, 3}, {2, 5, 2, 3}, {2, 5, 2, 2}}); };
  AttentionOptions options;
  const auto attend = [&](const Tensors& t) { return attention(t[0], t[1], t[2], options); };
  expect_gradient("attention", self(), attend);
  expect_gradient("grouped heads and d_v of its own", shared(), attend);
  options.causal = true;
  expect_gradient("causal", self(), attend);
  options.lengths = integers({2, 5});
  expect_gradient("causal, padded, grouped", shared(), attend);
  options.lengths = integers({0, 3});
  options.causal = false;
  expect_gradient("a sentence of length 0", self(), attend);
  options.alibi = Tensor::from(std::vector<float>{0.5f, 0.25f, 0.125f, 0.0625f}, {4});
  expect_gradient("alibi", self(), attend);
  options.p = 0.3f;
  options.random = kRandom;
  options.scale = 0.9;
  expect_gradient("dropout", self(), attend);
  options = {};
  expect_gradient("queries, keys and values are one tensor", leaves({{2, 3, 2, 4}}),
                  [&](const Tensors& t) { return attention(t[0], t[0], t[0], options); });
  expect_gradient("heads before positions", leaves({{2, 2, 3, 4}, {2, 2, 3, 4}, {2, 2, 3, 4}}), [&](const Tensors& t) {
    return attention(t[0].transpose(1, 2), t[1].transpose(1, 2), t[2].transpose(1, 2), options);
  });
  expect_gradient("features not adjacent", leaves({{2, 4, 2, 3}, {2, 4, 2, 3}, {2, 4, 2, 3}}), [&](const Tensors& t) {
    return attention(t[0].transpose(1, 3), t[1].transpose(1, 3), t[2].transpose(1, 3), options);
  });
  expect_gradient("only the values learn", leaves({{2, 3, 2, 4}}), [&](const Tensors& t) {
    const Tensor fixed = stop_gradient(t[0]);
    return attention(random_tensor(fixed.shape(), DType::f64, Philox{1, 2}),
                     random_tensor(fixed.shape(), DType::f64, Philox{1, 3}), t[0], options);
  });
  expect_gradient("additive_scores", leaves({{2, 3, 4}, {2, 5, 4}, {4}}),
                  [](const Tensors& t) { return additive_scores(t[0], t[1], t[2]); });
  expect_gradient("additive_scores of views", leaves({{3, 2, 4}, {2, 5, 9}, {4}}),
                  [](const Tensors& t) { return additive_scores(t[0].transpose(0, 1), t[1].narrow(2, 2, 4), t[2]); });
}

TEST(Gradient, Cells) {
  for (const Cell cell : {Cell::rnn, Cell::lstm, Cell::gru})
    for (const bool padded : {false, true}) {
      const int64_t H = 3, G = (cell == Cell::rnn ? 1 : cell == Cell::lstm ? 4 : 3) * H;
      const Tensor lengths = padded ? integers({1, 3}) : Tensor{};
      std::vector<Shape> shapes{{2, 3, G}, {G, H}, {2, H}};
      if (cell == Cell::lstm) shapes.push_back({2, H});
      const auto unroll = [=](const Tensors& t) {
        CellState state{t[2], t.size() > 3 ? t[3] : Tensor{}};
        for (int64_t i = 0; i < 3; ++i)
          state = cell_step(cell, t[0].select(1, i), linear(state.h, t[1]), state, lengths, i);
        return state;
      };
      const std::string name = "cell " + std::to_string(int(cell));
      expect_gradient(name, leaves(shapes), [=](const Tensors& t) { return unroll(t).h; });
      if (cell != Cell::lstm) continue;
      expect_gradient(name + ", only c used", leaves(shapes), [=](const Tensors& t) { return unroll(t).c; });
      expect_gradient(name + ", h and c used", leaves(shapes), [=](const Tensors& t) {
        const CellState s = unroll(t);
        return mul(s.h, s.c);
      });
    }
}

}  // namespace
}  // namespace rapt
