// What the texts say about attention.
#include <rapt/autograd/tape.hpp>
#include <rapt/nn/attention.hpp>
#include <rapt/nn/positions.hpp>
#include <support/compare.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace rapt::nn {
namespace {

using testing::random_tensor;
using testing::relative_error;

constexpr int64_t T = 6, d_model = 12, h = 4;

Tensor integers(const std::vector<int32_t>& values) { return Tensor::from(values, {int64_t(values.size())}); }
Tensor input(int64_t batch = 1, uint64_t stream = 0) {
  return random_tensor({batch, T, d_model}, DType::f64, Philox{41, stream});
}
Tensor permuted(const Tensor& x) {
  return gather_rows(x.view({T, d_model}), integers({3, 0, 5, 1, 4, 2})).view({1, T, d_model});
}
AttentionShape shaped(Position position = Position::none) {
  AttentionShape s;
  s.d_model = d_model;
  s.h = h;
  s.position = position;
  return s;
}

struct Block {
  Parameters parameters{6, DType::f64};
  SelfAttention self;
  explicit Block(const AttentionShape& s) : self(Scope(parameters), s) { parameters.freeze_layout(); }
  Tensor operator()(const Tensor& x, const Mask& mask = {}, Probe* probe = nullptr) const {
    Context ctx{.dtype = DType::f64};
    ctx.probe = probe;
    return self(x, mask, ctx);
  }
};

TEST(Attention, WithoutPositionsItSeesASet) {
  const Block block(shaped());
  const Tensor x = input();
  EXPECT_LT(relative_error(block(permuted(x)), permuted(block(x))), 1e-13);
}

TEST(Attention, WithPositionsItSeesASequence) {
  const Tensor x = input();
  const Tensor P = sinusoidal_positions(T, d_model, DType::f64);
  const Block plain(shaped());
  EXPECT_GT(relative_error(plain(add(permuted(x), P)), permuted(plain(add(x, P)))), 0.01);
  for (const Position position : {Position::rotary, Position::alibi}) {
    AttentionShape s = shaped(position);
    s.d_k = s.d_v = 4;
    const Block block(s);
    EXPECT_GT(relative_error(block(permuted(x)), permuted(block(x))), 0.01);
  }
}

TEST(Attention, TheCausalMaskHidesTheFuture) {
  const Block block(shaped());
  const Tensor x = input();
  for (int64_t i = 0; i < T; ++i) {
    const Tensor changed = affine(x, 1);
    if (i + 1 < T) changed.narrow(1, i + 1, T - i - 1).copy_from(input(1, 9).narrow(1, i + 1, T - i - 1));
    const Tensor causal = block(x, {{}, true}), causal_changed = block(changed, {{}, true});
    EXPECT_EQ(causal.narrow(1, 0, i + 1).to_vector(), causal_changed.narrow(1, 0, i + 1).to_vector())
        << "position " << i;
    if (i + 1 == T) continue;
    EXPECT_NE(block(x).select(1, i).to_vector(), block(changed).select(1, i).to_vector()) << "position " << i;
  }
}

TEST(Attention, RowsOfWeightsSumToOneAndTheProbeChangesNothing) {
  for (const Mask& mask : {Mask{}, Mask{{}, true}, Mask{integers({6, 4}), false}, Mask{integers({6, 4}), true}}) {
    const Block block(shaped());
    const Tensor x = input(2);
    Probe probe;
    EXPECT_EQ(block(x, mask, &probe).to_vector(), block(x, mask).to_vector());
    ASSERT_EQ(probe.records.size(), 1u);
    const Tensor weights = probe.records[0].weights;
    ASSERT_EQ(weights.shape(), (Shape{2, h, T, T}));
    for (const double w : weights.to_vector()) EXPECT_GE(w, 0);
    for (const double total : sum(weights, -1).to_vector()) EXPECT_NEAR(total, 1, 1e-13);
    for (int64_t i = 0; i < T; ++i)
      for (int64_t j = 0; j < T; ++j) {
        const bool hidden = (mask.causal && j > i) || (mask.lengths && j >= 4);
        EXPECT_EQ(weights.at({1, 0, i, j}) == 0, hidden) << i << " looks at " << j;
      }
  }
}

// Long enough for several blocks of the streaming kernels, in the types that they take.
class LongAttention : public ::testing::TestWithParam<DType> {
 protected:
  static constexpr int64_t kLength = 200;
  static Tensor run(const Tensor& x, const Mask& mask, Probe* probe = nullptr) {
    Parameters parameters(6, GetParam() == DType::f64 ? DType::f64 : DType::f32);
    const SelfAttention self(Scope(parameters), shaped());
    parameters.freeze_layout();
    Context ctx{.dtype = GetParam(), .probe = probe};
    return self(x, mask, ctx);
  }
  static Tensor long_input(uint64_t stream) {
    return random_tensor({1, kLength, d_model}, GetParam(), Philox{43, stream});
  }
};

TEST_P(LongAttention, TheCausalMaskHidesTheFuture) {
  const Tensor x = long_input(1);
  const Tensor y = run(x, {{}, true});
  for (const int64_t i : {0, 62, 63, 64, 130, 198}) {
    const Tensor changed = affine(x, 1);
    const int64_t rest = kLength - i - 1;
    changed.narrow(1, i + 1, rest).copy_from(affine(long_input(2).narrow(1, i + 1, rest), 10));
    EXPECT_EQ(y.narrow(1, 0, i + 1).to_vector(), run(changed, {{}, true}).narrow(1, 0, i + 1).to_vector()) << i;
  }
}

TEST_P(LongAttention, PaddingIsNotSeen) {
  const Tensor x = long_input(1);
  for (const int32_t length : {1, 64, 130}) {
    const Tensor changed = affine(x, 1);
    changed.narrow(1, length, kLength - length).fill(1000);
    const Mask mask{integers({length}), false};
    EXPECT_EQ(run(x, mask).narrow(1, 0, length).to_vector(), run(changed, mask).narrow(1, 0, length).to_vector());
  }
}

TEST_P(LongAttention, TheProbeChangesNothing) {
  const Tensor x = long_input(1);
  for (const bool causal : {false, true}) {
    Probe probe;
    EXPECT_EQ(run(x, {{}, causal}).to_vector(), run(x, {{}, causal}, &probe).to_vector());
    for (const double total : sum(probe.records.at(0).weights, -1).to_vector()) EXPECT_NEAR(total, 1, 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, LongAttention, ::testing::Values(DType::f64, DType::f32, DType::bf16),
                         [](const auto& info) { return to_string(info.param); });

TEST(Attention, TheProbeHasOneRecordABlockWithItsPath) {
  Parameters parameters(6, DType::f64);
  const SelfAttention self(Scope(parameters) / "decoder" / 2 / "self", shaped());
  parameters.freeze_layout();
  Probe probe;
  Context ctx{.dtype = DType::f64, .probe = &probe};
  self(input(), {}, ctx);
  ASSERT_EQ(probe.records.size(), 1u);
  EXPECT_EQ(probe.records[0].where, "decoder.2.self");
}

double variance(const Tensor& x) {
  const double mean = sum(x).item() / double(x.numel());
  return sum(square(affine(x, 1, -mean))).item() / double(x.numel());
}

TEST(Attention, TheVarianceOfScoresGrowsWithTheSizeAndTheScaleRemovesIt) {
  for (const int64_t d_k : {4, 16, 64, 256}) {
    const Tensor q = random_tensor({8000, d_k}, DType::f64, Philox{1, uint64_t(d_k)});
    const Tensor k = random_tensor({8000, d_k}, DType::f64, Philox{2, uint64_t(d_k)});
    const Tensor scores = sum(mul(q, k), -1);
    EXPECT_NEAR(variance(scores) / double(d_k), 1, 0.1) << "d_k " << d_k;
    EXPECT_NEAR(variance(affine(scores, 1 / std::sqrt(double(d_k)))), 1, 0.1) << "d_k " << d_k;

    // The scale that attention applies, read off its weights: log(w_0 / w_1) = scale (s_0 - s_1).
    Tensor weights;
    AttentionOptions options;
    options.weights = &weights;
    const Tensor Q = q.narrow(0, 0, 1).view({1, 1, 1, d_k}), K = k.narrow(0, 0, 2).view({1, 2, 1, d_k});
    attention(Q, K, K, options);
    const Tensor s = matmul(Q.view({1, d_k}), K.view({2, d_k}).transpose(0, 1));
    EXPECT_NEAR(std::log(weights.at({0, 0, 0, 0}) / weights.at({0, 0, 0, 1})),
                (s.at({0, 0}) - s.at({0, 1})) / std::sqrt(double(d_k)), 1e-12);
  }
}

TEST(Attention, RowsThatSeeNothingAreZeroWithFiniteGradients) {
  const Block block(shaped());
  Tensor x = input(2);
  require_grad(x);
  const Mask mask{integers({0, 3}), false};
  const Tensor y = block(x, mask);
  backward(sum(square(affine(y, 1, 0.5))));
  EXPECT_EQ(y.select(0, 0).to_vector(), std::vector<double>(size_t(T * d_model), 0.0));  // the bias of W_O begins at 0
  EXPECT_EQ(grad(x).select(0, 0).to_vector(), std::vector<double>(size_t(T * d_model), 0.0));
  for (const double g : grad(x).to_vector()) EXPECT_TRUE(std::isfinite(g));
  for (const double g : block.parameters.grads().to_vector()) EXPECT_TRUE(std::isfinite(g));
  EXPECT_GT(sum(square(grad(x))).item(), 0);
}

TEST(Attention, GroupedHeadsEqualRepeatedHeads) {
  AttentionShape s = shaped();
  s.g = 2;
  const Block grouped(s), full(shaped());
  const int64_t d_k = d_model / h;
  for (const char* name : {"q.weight", "o.weight"}) full.parameters.find(name).copy_from(grouped.parameters.find(name));
  for (const char* name : {"k.weight", "v.weight"})
    for (int64_t head = 0; head < h; ++head)
      full.parameters.find(name)
          .narrow(0, head * d_k, d_k)
          .copy_from(grouped.parameters.find(name).narrow(0, head / 2 * d_k, d_k));
  const Tensor x = input(2);
  EXPECT_LT(relative_error(grouped(x, {{}, true}), full(x, {{}, true})), 1e-13);
}

/// Concat(softmax(Q_i K_i^T / sqrt(d_k)) V_i) W_O, one head after the other.
TEST(Attention, QueriesKeysAndValuesMayHaveSizesOfTheirOwn) {
  AttentionShape s = shaped();
  s.h = 2;
  s.d_k = 3;
  s.d_v = 5;
  Parameters parameters(6, DType::f64);
  const MultiHeadAttention block(Scope(parameters), 7, 4, 9, s);
  parameters.freeze_layout();
  const Tensor query = random_tensor({1, 3, 7}, DType::f64, Philox{1, 1});
  const Tensor key = random_tensor({1, 5, 4}, DType::f64, Philox{1, 2});
  const Tensor value = random_tensor({1, 5, 9}, DType::f64, Philox{1, 3});
  Context ctx{.dtype = DType::f64};
  const Tensor got = block(query, key, value, {}, ctx);  // [1, 3, d_model]
  ASSERT_EQ(got.shape(), (Shape{1, 3, d_model}));
  std::vector<Tensor> heads;
  for (int64_t i = 0; i < 2; ++i) {
    const Tensor Q = linear(query.view({3, 7}), block.W_Q.W.narrow(0, 3 * i, 3));
    const Tensor K = linear(key.view({5, 4}), block.W_K.W.narrow(0, 3 * i, 3));
    const Tensor V = linear(value.view({5, 9}), block.W_V.W.narrow(0, 5 * i, 5));
    heads.push_back(matmul(softmax(affine(matmul(Q, K.transpose(0, 1)), 1 / std::sqrt(3.0))), V));
  }
  EXPECT_LT(relative_error(got.view({3, d_model}), linear(concat(heads, 1), block.W_O.W)), 1e-13);
}

TEST(Attention, CrossAttentionReadsTheMemory) {
  Parameters parameters(6, DType::f64);
  const CrossAttention cross(Scope(parameters), shaped(), 10);
  const MultiHeadAttention same(Scope(parameters) / "same", d_model, 10, 10, shaped());
  parameters.freeze_layout();
  for (const char* name : {"q.weight", "k.weight", "v.weight", "o.weight"})
    parameters.find("same." + std::string(name)).copy_from(parameters.find(name));
  const Tensor x = input(2), memory = random_tensor({2, 5, 10}, DType::f64, Philox{3, 3});
  const Mask mask{integers({5, 2}), false};
  Context ctx{.dtype = DType::f64};
  EXPECT_LT(relative_error(cross(x, memory, mask, ctx), same(x, memory, memory, mask, ctx)), 1e-13);
}

// ------------------------------------------------------------------------------------------------ before the Transformer

TEST(Scores, MultiplicativeIsDotWithAMatrixBetween) {
  Parameters parameters(6, DType::f64);
  const MultiplicativeScores scores(Scope(parameters), 4, 5);
  parameters.freeze_layout();
  const Tensor q = random_tensor({2, 3, 4}, DType::f64, Philox{1, 1});
  const Tensor k = random_tensor({2, 6, 5}, DType::f64, Philox{1, 2});
  EXPECT_LT(relative_error(scores(q, k), DotScores{}(q, linear(k, scores.W.W))), 1e-14);
  double wanted = 0;  // q_1 . W k_2 of the second sentence
  for (int64_t a = 0; a < 4; ++a)
    for (int64_t b = 0; b < 5; ++b) wanted += q.at({1, 1, a}) * scores.W.W.at({a, b}) * k.at({1, 2, b});
  EXPECT_NEAR(scores(q, k).at({1, 1, 2}), wanted, 1e-13);
}

TEST(Scores, AdditiveIsTheFormulaOfBahdanau) {
  Parameters parameters(6, DType::f64);
  const AdditiveScores scores(Scope(parameters), 4, 5, 7);
  parameters.freeze_layout();
  const Tensor q = random_tensor({2, 3, 4}, DType::f64, Philox{1, 1});
  const Tensor k = random_tensor({2, 6, 5}, DType::f64, Philox{1, 2});
  double wanted = 0;  // v . tanh(W q_1 + U k_2) of the second sentence
  for (int64_t a = 0; a < 7; ++a) {
    double inner = 0;
    for (int64_t i = 0; i < 4; ++i) inner += scores.W.W.at({a, i}) * q.at({1, 1, i});
    for (int64_t i = 0; i < 5; ++i) inner += scores.U.W.at({a, i}) * k.at({1, 2, i});
    wanted += scores.v.at({a}) * std::tanh(inner);
  }
  EXPECT_NEAR(scores(q, scores.keys(k)).at({1, 1, 2}), wanted, 1e-13);
}

TEST(Scores, TheContextIsTheWeightedSumOfTheValuesThatAreThere) {
  const Tensor e = random_tensor({2, 3, 5}, DType::f64, Philox{1, 1});
  const Tensor values = random_tensor({2, 5, 4}, DType::f64, Philox{1, 2});
  const Attended seen = weighted_sum(e, values, integers({5, 2}));
  for (const double total : sum(seen.weights, -1).to_vector()) EXPECT_NEAR(total, 1, 1e-14);
  EXPECT_EQ(sum(seen.weights.select(0, 1).narrow(1, 2, 3)).item(), 0);
  EXPECT_LT(relative_error(seen.context, matmul(seen.weights, values)), 1e-15);
}

}  // namespace
}  // namespace rapt::nn
