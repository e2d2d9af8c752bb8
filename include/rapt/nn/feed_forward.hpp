#pragma once
#include <rapt/nn/context.hpp>
#include <rapt/nn/linear.hpp>

namespace rapt::nn {

/// FFN(x) = W_2 act(W_1 x + b_1) + b_2                                               [Vaswani 2017, 3.3]
struct FeedForward {
  Linear W_1, W_2;
  Activation act;
  float p;

  FeedForward(const Scope& scope, int64_t d, int64_t d_ff, Activation act, float p, Linear::Options options = {})
      : W_1(scope / "w1", d, d_ff, options), W_2(scope / "w2", d_ff, d, options), act(act), p(p) {}

  Tensor operator()(const Tensor& x, Context& ctx) const {
    const Tensor hidden = W_1(x, act);                               // [B, T, d_ff]
    return W_2(dropout(hidden, ctx.dropout(p), ctx.next_random()));  // [B, T, d]
  }
};

/// SwiGLU(x) = W_2 (silu(W_g x) * W_u x)                                             [Shazeer 2020]
struct GatedFeedForward {
  Linear W_gu, W_2;
  float p;

  GatedFeedForward(const Scope& scope, int64_t d, int64_t d_ff, float p, Linear::Options options = {})
      : W_gu(scope, d, {{"gate", d_ff}, {"up", d_ff}}, options), W_2(scope / "w2", d_ff, d, options), p(p) {}

  Tensor operator()(const Tensor& x, Context& ctx) const {
    const Tensor hidden = swiglu(W_gu(x));                           // [B, T, d_ff]
    return W_2(dropout(hidden, ctx.dropout(p), ctx.next_random()));  // [B, T, d]
  }
};

}  // namespace rapt::nn
