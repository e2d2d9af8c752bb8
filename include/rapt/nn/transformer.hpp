#pragma once
#include <rapt/nn/attention.hpp>
#include <rapt/nn/feed_forward.hpp>
#include <rapt/nn/norm.hpp>

#include <optional>
#include <variant>

namespace rapt::nn {

/// What all layers of a stack share.
struct LayerShape {
  AttentionShape attention;
  int64_t d_ff = 2048;
  Activation act = Activation::relu;
  bool gated = false;  ///< SwiGLU; `act` is not used then
  NormOptions norm;
  bool pre_norm = false;
  float p = 0.1f;   ///< dropout on each sublayer's result
  float p_ffn = 0;  ///< dropout inside the feed-forward
};

/// Either feed-forward, chosen once when the layer is built.
struct AnyFeedForward {
  std::variant<FeedForward, GatedFeedForward> f;
  AnyFeedForward(const Scope& scope, const LayerShape& s)
      : f(s.gated ? decltype(f)(GatedFeedForward(scope, s.attention.d_model, s.d_ff, s.p_ffn, s.attention.linear))
                  : decltype(f)(FeedForward(scope, s.attention.d_model, s.d_ff, s.act, s.p_ffn, s.attention.linear))) {}
  Tensor operator()(const Tensor& x, Context& ctx) const {
    return std::visit([&](const auto& ffn) { return ffn(x, ctx); }, f);
  }
};

/// x <- x + SelfAttention(x);  x <- x + FFN(x), each with its norm. With a causal mask this is the block of a
/// decoder-only model.
struct EncoderLayer {
  SelfAttention self;
  AnyFeedForward ffn;
  Residual around_self, around_ffn;

  EncoderLayer(const Scope& scope, const LayerShape& s)
      : self(scope / "self", s.attention),
        ffn(scope / "ffn", s),
        around_self(scope / "self_norm", s.attention.d_model, s.norm, s.pre_norm, s.p),
        around_ffn(scope / "ffn_norm", s.attention.d_model, s.norm, s.pre_norm, s.p) {}

  void operator()(Stream& x, const Mask& mask, Context& ctx) const {
    around_self(
        x, [&](const Tensor& y) { return self(y, mask, ctx); }, ctx);
    around_ffn(
        x, [&](const Tensor& y) { return ffn(y, ctx); }, ctx);
  }
};

/// Masked self-attention, cross-attention to the encoder's memory, feed-forward.
struct DecoderLayer {
  SelfAttention self;
  CrossAttention cross;
  AnyFeedForward ffn;
  Residual around_self, around_cross, around_ffn;

  DecoderLayer(const Scope& scope, const LayerShape& s)
      : self(scope / "self", s.attention),
        cross(scope / "cross", without_positions(s.attention), s.attention.d_model),
        ffn(scope / "ffn", s),
        around_self(scope / "self_norm", s.attention.d_model, s.norm, s.pre_norm, s.p),
        around_cross(scope / "cross_norm", s.attention.d_model, s.norm, s.pre_norm, s.p),
        around_ffn(scope / "ffn_norm", s.attention.d_model, s.norm, s.pre_norm, s.p) {}

  void operator()(Stream& x, const Tensor& memory, const Mask& self_mask, const Mask& memory_mask, Context& ctx) const {
    around_self(
        x, [&](const Tensor& y) { return self(y, self_mask, ctx); }, ctx);
    around_cross(
        x, [&](const Tensor& y) { return cross(y, memory, memory_mask, ctx); }, ctx);
    around_ffn(
        x, [&](const Tensor& y) { return ffn(y, ctx); }, ctx);
  }

 private:
  /// Distances between a target and a source position mean nothing.
  static AttentionShape without_positions(AttentionShape s) {
    s.position = Position::none;
    return s;
  }
};

/// N layers and, with pre-norm, a norm at the end that settles the residual stream.
struct EncoderStack {
  std::vector<EncoderLayer> layers;
  std::optional<Norm> final_norm;
  float p;

  EncoderStack(const Scope& scope, int64_t N, const LayerShape& s) : p(s.p) {
    for (int64_t i = 0; i < N; ++i) layers.emplace_back(scope / i, s);
    if (s.pre_norm) final_norm.emplace(scope / "norm", s.attention.d_model, s.norm);
  }
  Tensor operator()(const Tensor& x, const Mask& mask, Context& ctx) const;
};

struct DecoderStack {
  std::vector<DecoderLayer> layers;
  std::optional<Norm> final_norm;
  float p;

  DecoderStack(const Scope& scope, int64_t N, const LayerShape& s) : p(s.p) {
    for (int64_t i = 0; i < N; ++i) layers.emplace_back(scope / i, s);
    if (s.pre_norm) final_norm.emplace(scope / "norm", s.attention.d_model, s.norm);
  }
  Tensor operator()(const Tensor& y, const Tensor& memory, const Mask& self_mask, const Mask& memory_mask,
                    Context& ctx) const;
};

}  // namespace rapt::nn
