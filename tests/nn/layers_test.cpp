// Layers against the formulas that their headers state.
#include <rapt/autograd/tape.hpp>
#include <rapt/base/error.hpp>
#include <rapt/nn/positions.hpp>
#include <rapt/nn/recurrent.hpp>
#include <rapt/nn/transformer.hpp>
#include <support/compare.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace rapt::nn {
namespace {

using testing::random_tensor;
using testing::relative_error;

LayerShape layer_shape(bool pre_norm, NormKind kind = NormKind::layer) {
  LayerShape s;
  s.attention.d_model = 12;
  s.attention.h = 3;
  s.d_ff = 20;
  s.act = Activation::gelu;
  s.norm.kind = kind;
  s.pre_norm = pre_norm;
  return s;
}

/// Gains and biases begin at 1 and 0, where a wrong one would not show.
void stir(const Parameters& parameters) {
  uint64_t stream = 0;
  for (const auto& entry : parameters.entries())
    if (entry.tensor.rank() == 1)
      entry.tensor.copy_from(random_tensor(entry.tensor.shape(), DType::f64, {12, stream++}));
}

TEST(Layers, PostNormIsTheFormulaOfThePaper) {
  for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
    Parameters parameters(3, DType::f64);
    const EncoderStack stack(Scope(parameters), 1, layer_shape(false, kind));
    parameters.freeze_layout();
    stir(parameters);
    const EncoderLayer& layer = stack.layers[0];
    Context ctx{.dtype = DType::f64};
    const Tensor x = random_tensor({2, 4, 12}, DType::f64, Philox{1, 0});
    const Tensor a = layer.around_self.norm(add(x, layer.self(x, {}, ctx)));
    const Tensor b = layer.around_ffn.norm(add(a, layer.ffn(a, ctx)));
    EXPECT_LT(relative_error(stack(x, {}, ctx), b), 1e-13);
    EXPECT_FALSE(stack.final_norm.has_value());
  }
}

TEST(Layers, PreNormKeepsTheStreamUntouched) {
  Parameters parameters(3, DType::f64);
  const EncoderStack stack(Scope(parameters), 2, layer_shape(true));
  parameters.freeze_layout();
  stir(parameters);
  Context ctx{.dtype = DType::f64};
  Tensor x = random_tensor({2, 4, 12}, DType::f64, Philox{1, 0});
  const Tensor got = stack(x, {}, ctx);
  for (const EncoderLayer& layer : stack.layers) {
    x = add(x, layer.self(layer.around_self.norm(x), {}, ctx));
    x = add(x, layer.ffn(layer.around_ffn.norm(x), ctx));
  }
  EXPECT_LT(relative_error(got, (*stack.final_norm)(x)), 1e-13);
}

TEST(Layers, DecoderLayersAttendToThemselvesThenToTheMemory) {
  for (const bool pre : {false, true}) {
    Parameters parameters(3, DType::f64);
    const DecoderStack stack(Scope(parameters), 1, layer_shape(pre));
    parameters.freeze_layout();
    stir(parameters);
    const DecoderLayer& layer = stack.layers[0];
    const Mask causal{{}, true}, padded{Tensor::from(std::vector<int32_t>{5, 3}, {2}), false};
    Context ctx{.dtype = DType::f64};
    Tensor y = random_tensor({2, 4, 12}, DType::f64, Philox{1, 0});
    const Tensor memory = random_tensor({2, 5, 12}, DType::f64, Philox{1, 1});
    const Tensor got = stack(y, memory, causal, padded, ctx);
    const auto residual = [pre](const Residual& around, const Tensor& x, auto f) {
      return pre ? add(x, f(around.norm(x))) : around.norm(add(x, f(x)));
    };
    y = residual(layer.around_self, y, [&](const Tensor& t) { return layer.self(t, causal, ctx); });
    y = residual(layer.around_cross, y, [&](const Tensor& t) { return layer.cross(t, memory, padded, ctx); });
    y = residual(layer.around_ffn, y, [&](const Tensor& t) { return layer.ffn(t, ctx); });
    EXPECT_LT(relative_error(got, pre ? (*stack.final_norm)(y) : y), 1e-13);
  }
}

TEST(Layers, FeedForwardPlainAndGated) {
  Parameters parameters(3, DType::f64);
  const FeedForward plain(Scope(parameters) / "plain", 6, 10, Activation::relu, 0);
  const GatedFeedForward gated(Scope(parameters) / "gated", 6, 10, 0);
  parameters.freeze_layout();
  stir(parameters);
  Context ctx{.dtype = DType::f64};
  const Tensor x = random_tensor({2, 3, 6}, DType::f64, Philox{1, 0});
  EXPECT_LT(relative_error(plain(x, ctx), linear(relu(linear(x, plain.W_1.W, plain.W_1.b)), plain.W_2.W, plain.W_2.b)),
            1e-13);
  const auto part = [&](const char* name) {
    return linear(x, parameters.find("gated." + std::string(name) + ".weight"),
                  parameters.find("gated." + std::string(name) + ".bias"));
  };
  EXPECT_LT(relative_error(gated(x, ctx), linear(mul(silu(part("gate")), part("up")), gated.W_2.W, gated.W_2.b)),
            1e-13);
}

TEST(Layers, DropoutOnlyInTraining) {
  Parameters parameters(3, DType::f64);
  const EncoderStack stack(Scope(parameters), 1, layer_shape(true));
  parameters.freeze_layout();
  const Tensor x = random_tensor({2, 4, 12}, DType::f64, Philox{1, 0});
  const auto run = [&](bool training, uint64_t step) {
    Context ctx{.training = training, .dtype = DType::f64, .seed = 5, .step = step};
    return stack(x, {}, ctx).to_vector();
  };
  EXPECT_EQ(run(false, 1), run(false, 2));
  EXPECT_EQ(run(true, 1), run(true, 1));
  EXPECT_NE(run(true, 1), run(true, 2));
  EXPECT_NE(run(true, 1), run(false, 1));
}

// ---------------------------------------------------------------------------------------------------------- recurrence

/// x with each sequence turned around inside its own length.
Tensor reversed(const Tensor& x, const std::vector<int32_t>& lengths) {
  const Tensor y = affine(x, 1);
  for (int64_t b = 0; b < x.size(0); ++b)
    for (int64_t t = 0; t < lengths[size_t(b)]; ++t)
      y.select(0, b).select(0, t).copy_from(x.select(0, b).select(0, lengths[size_t(b)] - 1 - t));
  return y;
}

TEST(Recurrence, BidirectionalIsTwoDirectionsSideBySide) {
  const std::vector<int32_t> lengths{5, 2, 4};
  const Tensor length_tensor = Tensor::from(lengths, {3});
  for (const Cell cell : {Cell::rnn, Cell::lstm, Cell::gru}) {
    Parameters parameters(3, DType::f64);
    const RecurrentStack both(Scope(parameters), cell, 1, 4, 6, true, 0);
    parameters.freeze_layout();
    Context ctx{.dtype = DType::f64};
    const Tensor x = random_tensor({3, 5, 4}, DType::f64, Philox{1, 0});
    const auto got = both(x, length_tensor, ctx);
    const CellState zero = both.forwards[0].start(3, DType::f64);
    const auto along = both.forwards[0](x, length_tensor, zero);
    const auto against = both.backwards[0](reversed(x, lengths), length_tensor, zero);
    ASSERT_EQ(got.outputs.shape(), (Shape{3, 5, 12}));
    EXPECT_LT(relative_error(got.finals[0].h, concat({along.final.h, against.final.h}, 1)), 1e-14);
    const Tensor turned = reversed(against.outputs, lengths);
    for (int64_t b = 0; b < 3; ++b) {
      const auto there = [&](const Tensor& t) { return t.select(0, b).narrow(0, 0, lengths[size_t(b)]); };
      EXPECT_LT(relative_error(there(got.outputs.narrow(2, 0, 6)), there(along.outputs)), 1e-14);
      EXPECT_LT(relative_error(there(got.outputs.narrow(2, 6, 6)), there(turned)), 1e-14);
    }
  }
}

TEST(Recurrence, ALayerIsItsStepsOneAfterTheOther) {
  for (const Cell cell : {Cell::rnn, Cell::lstm, Cell::gru}) {
    Parameters parameters(3, DType::f64);
    const Recurrent layer(Scope(parameters), cell, 4, 6);
    parameters.freeze_layout();
    stir(parameters);
    const Tensor x = random_tensor({2, 5, 4}, DType::f64, Philox{1, 0});
    const auto result = layer(x, {}, layer.start(2, DType::f64));
    CellState state = layer.start(2, DType::f64);
    for (int64_t t = 0; t < 5; ++t) {
      state = layer.step(x.select(1, t), state);
      EXPECT_LT(relative_error(result.outputs.select(1, t), state.h), 1e-14);
    }
    EXPECT_LT(relative_error(result.final.h, state.h), 1e-14);
  }
}

TEST(Recurrence, StacksFeedTheNextLayer) {
  Parameters parameters(3, DType::f64);
  const RecurrentStack stack(Scope(parameters), Cell::lstm, 2, 4, 6, false, 0);
  parameters.freeze_layout();
  Context ctx{.dtype = DType::f64};
  const Tensor x = random_tensor({2, 5, 4}, DType::f64, Philox{1, 0});
  const CellState zero = stack.forwards[0].start(2, DType::f64);
  const auto first = stack.forwards[0](x, {}, zero);
  const auto second = stack.forwards[1](first.outputs, {}, zero);
  const auto got = stack(x, Tensor{}, ctx);
  EXPECT_LT(relative_error(got.outputs, second.outputs), 1e-14);
  EXPECT_LT(relative_error(got.finals[0].c, first.final.c), 1e-14);
  EXPECT_LT(relative_error(got.finals[1].c, second.final.c), 1e-14);
}

// ----------------------------------------------------------------------------------------------------------- positions

TEST(Positions, TheSinusoidalTableIsTheFormula) {
  for (const int64_t d : {8, 7})
    for (const bool halves : {false, true}) {
      const Tensor table = sinusoidal_positions(50, d, DType::f64, halves);
      const int64_t sines = (d + 1) / 2;
      for (const int64_t pos : {0, 1, 17, 49})
        for (int64_t j = 0; j < d; ++j) {
          const int64_t i = halves ? j % sines : j / 2;
          const bool sine = halves ? j < sines : j % 2 == 0;
          const double angle = double(pos) / std::pow(10000.0, 2.0 * double(i) / double(d));
          EXPECT_NEAR(table.at({pos, j}), sine ? std::sin(angle) : std::cos(angle), 1e-15) << pos << ", " << j;
        }
    }
}

TEST(Positions, AShiftOfSinusoidalPositionsIsARotation) {
  // [sin, cos](pos + k) is a rotation of [sin, cos](pos) that depends on k alone.
  const Tensor table = sinusoidal_positions(40, 8, DType::f64);
  for (int64_t i = 0; i < 4; ++i) {
    const double angle = 5 / std::pow(10000.0, 2.0 * double(i) / 8);
    for (const int64_t pos : {0, 3, 30}) {
      const double s = table.at({pos, 2 * i}), c = table.at({pos, 2 * i + 1});
      EXPECT_NEAR(table.at({pos + 5, 2 * i}), s * std::cos(angle) + c * std::sin(angle), 1e-14);
      EXPECT_NEAR(table.at({pos + 5, 2 * i + 1}), c * std::cos(angle) - s * std::sin(angle), 1e-14);
    }
  }
}

TEST(Positions, AlibiSlopesOfThePaper) {
  const Tensor eight = alibi_slopes(8);
  for (int64_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(float(eight.at({i})), float(std::exp2(-double(i + 1))));
  const Tensor twelve = alibi_slopes(12);
  ASSERT_EQ(twelve.numel(), 12);
  for (int64_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(float(twelve.at({i})), float(std::exp2(-double(i + 1))));
  for (int64_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(float(twelve.at({8 + i})), float(std::exp2(-0.5 - double(i))));
}

TEST(Positions, RotaryScoresDependOnTheDistanceAlone) {
  const Tensor q = random_tensor({1, 1, 1, 8}, DType::f64, Philox{1, 1});
  const Tensor k = random_tensor({1, 1, 1, 8}, DType::f64, Philox{1, 2});
  for (const bool interleaved : {false, true}) {
    const auto score = [&](int64_t i, int64_t j) {
      return sum(mul(rotary(q, 10000, i, interleaved), rotary(k, 10000, j, interleaved))).item();
    };
    EXPECT_NEAR(score(3, 1), score(12, 10), 1e-13);
    EXPECT_GT(std::abs(score(3, 1) - score(3, 2)), 1e-3);
  }
}

}  // namespace
}  // namespace rapt::nn
