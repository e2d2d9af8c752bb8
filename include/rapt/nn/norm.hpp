#pragma once
#include <rapt/nn/context.hpp>
#include <rapt/nn/parameters.hpp>
#include <rapt/ops/ops.hpp>

namespace rapt::nn {

/// LayerNorm(x) = (x - mean) / sqrt(var + eps) * gain + bias;  RMSNorm(x) = x / sqrt(mean x^2 + eps) * gain
struct Norm {
  NormOptions options;
  Tensor gain, bias;

  Norm(const Scope& scope, int64_t d, NormOptions options)
      : options(options),
        gain(scope.parameter("weight", {d}, Init::ones())),
        bias(options.kind == NormKind::layer ? scope.parameter("bias", {d}, Init::zeros()) : Tensor{}) {}

  Tensor operator()(const Tensor& x) const { return norm(x, gain, bias, options); }
};

/// The residual stream between two sublayers: its value is x + dropout(pending). The addition is left to the next norm,
/// which makes both in one pass over memory.
struct Stream {
  Tensor x, pending;
};

/// One residual connection with its norm.
///   post-norm [Vaswani 2017]:  x <- Norm(x + dropout(f(x)))
///   pre-norm:                  x <- x + dropout(f(Norm(x)))
struct Residual {
  Norm norm;
  bool pre;
  float p;

  Residual(const Scope& scope, int64_t d, NormOptions options, bool pre, float p)
      : norm(scope, d, options), pre(pre), p(p) {}

  template <class F>
  void operator()(Stream& s, F f, Context& ctx) const {
    if (pre) {
      s.pending = f(settle(s, norm, p, ctx));
    } else {
      const Tensor r = f(s.x);  // before next_random: what f draws comes first, whatever the compiler
      s.x = add_norm(s.x, r, norm.gain, norm.bias, norm.options, ctx.dropout(p), ctx.next_random()).y;
    }
  }

  /// Makes the pending addition and returns Norm of the stream.
  static Tensor settle(Stream& s, const Norm& norm, float p, Context& ctx) {
    if (!s.pending) return norm(s.x);
    const AddNorm r = add_norm(s.x, s.pending, norm.gain, norm.bias, norm.options, ctx.dropout(p), ctx.next_random());
    s = {r.sum, {}};
    return r.y;
  }
};

}  // namespace rapt::nn
