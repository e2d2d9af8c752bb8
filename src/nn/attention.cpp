#include <base/fail.hpp>
#include <rapt/nn/attention.hpp>

namespace rapt::nn {

AttentionShape AttentionShape::resolved() const {
  AttentionShape s = *this;
  require<ConfigError>(d_model > 0 && h > 0, "[attention] d_model {} and {} heads: both must be at least 1", d_model,
                       h);
  if (s.g == 0) s.g = h;
  require<ConfigError>(s.g > 0 && h % s.g == 0, "[attention] {} query heads cannot share {} key heads evenly", h, s.g);
  if (s.d_k == 0 || s.d_v == 0)
    require<ConfigError>(d_model % h == 0, "[attention] d_model {} is not a multiple of {} heads; give d_k and d_v",
                         d_model, h);
  if (s.d_k == 0) s.d_k = d_model / h;
  if (s.d_v == 0) s.d_v = d_model / h;
  require<ConfigError>(position != Position::rotary || s.d_k % 2 == 0,
                       "[attention] rotary positions turn pairs: d_k {} must be even", s.d_k);
  return s;
}

ScaledDotProduct::ScaledDotProduct(const Scope& scope, const AttentionShape& s)
    : shape(s.resolved()), slopes(s.position == Position::alibi ? alibi_slopes(s.h) : Tensor{}), where(scope.path()) {}

Tensor ScaledDotProduct::operator()(Tensor Q, Tensor K, const Tensor& V, const Mask& mask, Context& ctx) const {
  if (shape.position == Position::rotary) {
    Q = rotary(Q, shape.rotary_base, 0, shape.rotary_interleaved);
    K = rotary(K, shape.rotary_base, 0, shape.rotary_interleaved);
  }
  AttentionOptions options;
  options.lengths = mask.lengths;
  options.causal = mask.causal;
  options.alibi = slopes;
  options.scale = shape.scaled ? 0 : 1;
  options.p = ctx.dropout(shape.p);
  options.random = ctx.next_random();
  Tensor weights;
  if (ctx.probe) options.weights = &weights;
  Tensor O = attention(Q, K, V, options);
  if (ctx.probe) ctx.probe->records.push_back({where, weights});
  return O;
}

Attended weighted_sum(const Tensor& scores, const Tensor& values, const Tensor& lengths) {
  const Tensor weights = softmax(scores, lengths);  // [B, Tq, Tk]
  return {matmul(weights, values), weights};        // [B, Tq, d_v]
}

}  // namespace rapt::nn
