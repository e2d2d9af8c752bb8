// Operations refuse what they cannot take with a typed exception that quotes the numbers.
#include <rapt/autograd/tape.hpp>
#include <rapt/ops/ops.hpp>
#include <support/expect_error.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace rapt {
namespace {

using testing::expect_error;

Tensor f32(const Shape& shape) { return Tensor::full(shape, 0.5); }
Tensor f64(const Shape& shape) { return Tensor::full(shape, 0.5, DType::f64); }
Tensor i32(const std::vector<int32_t>& values) { return Tensor::from(values, {int64_t(values.size())}); }

TEST(BadInput, ShapesOfProducts) {
  expect_error<ShapeError>("[linear] inner dimensions differ: x [8, 16] and W [12, 32]", [] {
    linear(f32({8, 16}), f32({12, 32}));
  });
  expect_error<ShapeError>("b has shape [3]; [4] is needed", [] { linear(f32({2, 5}), f32({4, 5}), f32({3})); });
  expect_error<ShapeError>("x [] and W [4, 5]", [] { linear(f32(Shape{}), f32({4, 5})); });
  expect_error<ShapeError>("W [5]", [] { linear(f32({2, 5}), f32({5})); });
  expect_error<ShapeError>("x [2, 0] and W [4, 0]", [] { linear(f32({2, 0}), f32({4, 0})); });
  expect_error<ShapeError>("W [0, 5]", [] { linear(f32({2, 5}), f32({0, 5})); });
  expect_error<ShapeError>("[matmul] a [2, 3] and b [4, 5]", [] { matmul(f32({2, 3}), f32({4, 5})); });
  expect_error<ShapeError>("[matmul] a [2, 3, 4] and b [3, 4, 5]", [] { matmul(f32({2, 3, 4}), f32({3, 4, 5})); });
  expect_error<ShapeError>("[matmul] a [3] and b [3]", [] { matmul(f32({3}), f32({3})); });
}

TEST(BadInput, ShapesOfElementwiseAndRows) {
  expect_error<ShapeError>("[2, 3] and [2, 4] do not broadcast", [] { add(f32({2, 3}), f32({2, 4})); });
  expect_error<ShapeError>("[swiglu] x [2, 5]", [] { swiglu(f32({2, 5})); });
  expect_error<ShapeError>("[rotary] x [2, 3, 4, 5]", [] { rotary(f32({2, 3, 4, 5})); });
  expect_error<ShapeError>("[rotary] x [2, 6]", [] { rotary(f32({2, 6})); });
  expect_error<ShapeError>("gain has shape [3]; [4] is needed", [] { norm(f32({2, 4}), f32({3}), {}, {}); });
  expect_error<ShapeError>("bias has shape [3]; [4] is needed", [] { norm(f32({2, 4}), f32({4}), f32({3}), {}); });
  expect_error<ShapeError>("[norm] x [2, 0]", [] { norm(f32({2, 0}), f32({0}), {}, {}); });
  expect_error<ShapeError>("[norm] x []", [] { norm(f32(Shape{}), f32({1}), {}, {}); });
  expect_error<ShapeError>("the residual has shape [2, 5]; [2, 4] is needed", [] {
    add_norm(f32({2, 4}), f32({2, 5}), f32({4}), {}, {});
  });
  expect_error<ShapeError>("[softmax] 3 rows and 2 lengths", [] { softmax(f32({3, 4}), i32({1, 2})); });
  expect_error<ShapeError>("[concat] [2, 3] and [2, 4] differ outside axis 0", [] {
    concat({f32({2, 3}), f32({2, 4})}, 0);
  });
  expect_error<ShapeError>("[concat] of no tensors", [] { concat({}, 0); });
  expect_error<ShapeError>("[mean] of no elements: x [0, 3]", [] { mean(f32({0, 3})); });
  expect_error<IndexError>("axis", [] { sum(f32({2, 3}), 2); });
  expect_error<ShapeError>("[gather_rows] x [3]", [] { gather_rows(f32({3}), i32({0})); });
}

TEST(BadInput, ShapesOfAttention) {
  const Tensor Q = f32({2, 3, 4, 5});
  expect_error<ShapeError>("K [2, 3, 4, 6]", [&] { attention(Q, f32({2, 3, 4, 6}), f32({2, 3, 4, 5})); });
  expect_error<ShapeError>("K [1, 3, 4, 5]", [&] { attention(Q, f32({1, 3, 4, 5}), f32({1, 3, 4, 5})); });
  expect_error<ShapeError>("V [2, 4, 4, 5]", [&] { attention(Q, Q, f32({2, 4, 4, 5})); });
  expect_error<ShapeError>("Q [3, 4, 5]", [&] { attention(f32({3, 4, 5}), Q, Q); });
  expect_error<ShapeError>("4 query heads cannot share 3 key heads evenly", [&] {
    attention(Q, f32({2, 3, 3, 5}), f32({2, 3, 3, 5}));
  });
  expect_error<ShapeError>("4 query heads cannot share 0 key heads", [&] {
    attention(Q, f32({2, 3, 0, 5}), f32({2, 3, 0, 5}));
  });
  expect_error<ShapeError>("causal with 3 queries and only 2 keys", [&] {
    attention(Q, f32({2, 2, 4, 5}), f32({2, 2, 4, 5}), {.lengths = {}, .causal = true, .alibi = {}, .random = {}});
  });
  AttentionOptions options;
  options.lengths = i32({3});
  expect_error<ShapeError>("lengths has shape [1]; [2] is needed", [&] { attention(Q, Q, Q, options); });
  options.lengths = i32({3, 4});
  expect_error<IndexError>("length 4 of sequence 1 is outside [0, 3]", [&] { attention(Q, Q, Q, options); });
  options.lengths = i32({-1, 2});
  expect_error<IndexError>("length -1 of sequence 0", [&] { attention(Q, Q, Q, options); });
  options.lengths = f32({2});
  expect_error<DTypeError>("lengths is f32; i32 is needed", [&] { attention(Q, Q, Q, options); });
  options = {};
  options.alibi = f32({3});
  expect_error<ShapeError>("alibi has shape [3]; [4] is needed", [&] { attention(Q, Q, Q, options); });
  expect_error<ShapeError>("q [2, 3, 4], k [2, 3, 5]", [] {
    additive_scores(f32({2, 3, 4}), f32({2, 3, 5}), f32({4}));
  });
  expect_error<ShapeError>("v [3]", [] { additive_scores(f32({2, 3, 4}), f32({2, 3, 4}), f32({3})); });
}

TEST(BadInput, ShapesOfCells) {
  const CellState state{f32({2, 3}), f32({2, 3})};
  expect_error<ShapeError>("gx has shape [2, 9]; [2, 12] is needed", [&] {
    cell_step(Cell::lstm, f32({2, 9}), f32({2, 12}), state);
  });
  expect_error<ShapeError>("gh has shape [1, 9]; [2, 9] is needed", [&] {
    cell_step(Cell::gru, f32({2, 9}), f32({1, 9}), state);
  });
  expect_error<ShapeError>("needs a cell state c", [&] {
    cell_step(Cell::lstm, f32({2, 12}), f32({2, 12}), {state.h, {}});
  });
  expect_error<ShapeError>("c has shape [2, 4]; [2, 3] is needed", [&] {
    cell_step(Cell::lstm, f32({2, 12}), f32({2, 12}), {state.h, f32({2, 4})});
  });
  expect_error<DTypeError>("c is f64; f32 is needed", [&] {
    cell_step(Cell::lstm, f32({2, 12}), f32({2, 12}), {state.h, f64({2, 3})});
  });
  expect_error<ShapeError>("lengths has shape [3]; [2] is needed", [&] {
    cell_step(Cell::rnn, f32({2, 3}), f32({2, 3}), state, i32({1, 2, 3}));
  });
}

TEST(BadInput, DTypes) {
  const Tensor ids = i32({1, 2, 3}), half = Tensor::zeros({3}, DType::f16);
  for (auto f : {neg, exp, log, sqrt, square, relu, gelu, gelu_tanh, silu, tanh, sigmoid, softplus}) {
    expect_error<DTypeError>("x is i32; f64, f32 or bf16 is needed", [&] { f(ids); });
    expect_error<DTypeError>("x is f16; f64, f32 or bf16 is needed", [&] { f(half); });
  }
  for (auto f : {add, sub, mul, div})
    expect_error<DTypeError>("b is f64; f32 is needed", [&] { f(f32({3}), f64({3})); });
  expect_error<DTypeError>("x is i32", [&] { sum(ids); });
  expect_error<DTypeError>("x is i32", [&] { softmax(ids); });
  expect_error<DTypeError>("x is i32", [&] { affine(ids, 2); });
  expect_error<DTypeError>("x is i32", [&] { dropout(ids, 0.1f, {}); });
  expect_error<DTypeError>("[cast] to i8", [] { cast(f32({2}), DType::i8); });
  expect_error<DTypeError>("W is f64; f32 is needed", [] { linear(f32({2, 3}), f64({4, 3})); });
  expect_error<DTypeError>("b is f64; f32 is needed", [] { linear(f32({2, 3}), f32({4, 3}), f64({4})); });
  expect_error<DTypeError>("b is f64; f32 is needed", [] { matmul(f32({2, 3}), f64({3, 4})); });
  expect_error<DTypeError>("gain is f64; f32 is needed", [] { norm(f32({2, 3}), f64({3}), {}, {}); });
  expect_error<DTypeError>("K is f64; f32 is needed", [] {
    attention(f32({1, 1, 1, 1}), f64({1, 1, 1, 1}), f32({1, 1, 1, 1}));
  });
  expect_error<DTypeError>("a part is f64; f32 is needed", [] { concat({f32({2}), f64({2})}, 0); });
  expect_error<DTypeError>("W is f32; f64 is needed", [&] { embedding(ids, f32({4, 2}), {.dtype = DType::f64}); });
  expect_error<DTypeError>("to i32: f64, f32 or bf16 is needed", [&] {
    embedding(ids, f32({4, 2}), {.dtype = DType::i32});
  });
  expect_error<DTypeError>("ids is f32; i32 is needed", [] { embedding(f32({3}), f32({4, 2}), {}); });
  expect_error<DTypeError>("targets is f32; i32 is needed", [] { cross_entropy(f32({3, 4}), f32({3})); });
  expect_error<DTypeError>("b is f64; f32 is needed", [&] {
    projected_cross_entropy(f32({3, 4}), f32({5, 4}), f64({5}), ids);
  });
}

TEST(BadInput, IdsAndPositions) {
  const Tensor W = f32({4, 2});
  expect_error<IndexError>("id 4 at position 1 is outside [0, 4)", [&] { embedding(i32({0, 4}), W, {}); });
  expect_error<IndexError>("id -1 at position 0 is outside [0, 4)", [&] { embedding(i32({-1, 0}), W, {}); });
  expect_error<IndexError>("id 7 at position 2 is outside [0, 4)", [&] { gather_rows(W, i32({0, 1, 7})); });
  expect_error<IndexError>("3 positions from 0 on are asked for, the table has 2", [&] {
    embedding(i32({0, 1, 2}), W, {.positions = f32({2, 2})});
  });
  expect_error<IndexError>("1 positions from -1 on", [&] {
    embedding(i32({0}), W, {.positions = f32({2, 2}), .offset = -1});
  });
  expect_error<IndexError>("1 positions from 9223372036854775807 on", [&] {
    embedding(i32({0}), W, {.positions = f32({2, 2}), .offset = INT64_MAX});
  });
  expect_error<ShapeError>("positions [3, 5] for vectors of 2", [&] {
    embedding(i32({0}), W, {.positions = f32({3, 5})});
  });
  expect_error<ShapeError>("ids []", [&] { embedding(i32({0}).view(Shape{}), W, {}); });
  expect_error<ShapeError>("ids must be contiguous", [&] {
    embedding(Tensor::zeros({2, 3}, DType::i32).transpose(0, 1), W, {});
  });
  expect_error<IndexError>("target 4 in row 1 is outside [0, 4)", [] { cross_entropy(f32({2, 4}), i32({0, 4})); });
  expect_error<IndexError>("target -2 in row 0 is outside [0, 5)", [] {
    projected_cross_entropy(f32({2, 4}), f32({5, 4}), {}, i32({-2, 0}));
  });
  expect_error<ShapeError>("targets has shape [3]; [2] is needed", [] { cross_entropy(f32({2, 4}), i32({0, 1, 2})); });
  expect_error<ShapeError>("x [2, 4] and W [5, 3]", [] {
    projected_cross_entropy(f32({2, 4}), f32({5, 3}), {}, i32({0, 1}));
  });
}

TEST(BadInput, Rates) {
  for (const float p : {-0.1f, 1.0f, 1.5f, float(std::nan(""))}) {
    expect_error<ConfigError>("is outside [0, 1)", [=] { dropout(f32({3}), p, {}); });
    expect_error<ConfigError>("is outside [0, 1)", [=] { add_norm(f32({2, 3}), f32({2, 3}), f32({3}), {}, {}, p); });
    AttentionOptions options;
    options.p = p;
    const Tensor x = f32({1, 2, 1, 2});
    expect_error<ConfigError>("is outside [0, 1)", [&] { attention(x, x, x, options); });
  }
  for (const double smoothing : {-0.1, 1.0, std::nan("")})
    expect_error<ConfigError>("smoothing", [=] { cross_entropy(f32({1, 4}), i32({0}), {.smoothing = smoothing}); });
}

TEST(BadInput, UndefinedTensors) {
  const Tensor none, x = f32({2, 4});
  const std::vector<std::pair<const char*, std::function<void()>>> calls{
      {"linear x", [&] { linear(none, x); }},
      {"linear W", [&] { linear(x, none); }},
      {"matmul", [&] { matmul(x, none); }},
      {"add", [&] { add(none, x); }},
      {"mul", [&] { mul(x, none); }},
      {"tanh", [&] { tanh(none); }},
      {"affine", [&] { affine(none, 1); }},
      {"contiguous", [&] { contiguous(none); }},
      {"cast", [&] { cast(none, DType::f32); }},
      {"dropout", [&] { dropout(none, 0, {}); }},
      {"swiglu", [&] { swiglu(none); }},
      {"rotary", [&] { rotary(none); }},
      {"concat", [&] { concat({none}, 0); }},
      {"concat, second",
       [&] {
         concat({x, none}, 0);
       }},
      {"stack",
       [&] {
         stack({x, none}, 0);
       }},
      {"sum", [&] { sum(none); }},
      {"mean", [&] { mean(none); }},
      {"embedding ids", [&] { embedding(none, x, {}); }},
      {"embedding W", [&] { embedding(i32({0}), none, {}); }},
      {"gather_rows", [&] { gather_rows(x, none); }},
      {"norm x", [&] { norm(none, x, {}, {}); }},
      {"norm gain", [&] { norm(x, none, {}, {}); }},
      {"softmax", [&] { softmax(none); }},
      {"cross_entropy", [&] { cross_entropy(none, i32({0})); }},
      {"cross_entropy targets", [&] { cross_entropy(x, none); }},
      {"projected_cross_entropy",
       [&] {
         projected_cross_entropy(x, none, {}, i32({0, 0}));
       }},
      {"binary_cross_entropy", [&] { binary_cross_entropy(x, none); }},
      {"mean_squared_error", [&] { mean_squared_error(none, x); }},
      {"attention", [&] { attention(none, none, none); }},
      {"additive_scores", [&] { additive_scores(none, none, none); }},
      {"cell_step", [&] { cell_step(Cell::rnn, x, x, {}); }},
      {"cell_step gx",
       [&] {
         cell_step(Cell::rnn, none, x, {x, {}});
       }},
      {"stop_gradient", [&] { stop_gradient(none); }},
      {"grad", [&] { grad(none); }},
      {"backward", [&] { backward(none); }},
  };
  for (const auto& [name, call] : calls) EXPECT_THROW(call(), Error) << name;
}

}  // namespace
}  // namespace rapt
