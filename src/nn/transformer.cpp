#include <rapt/nn/transformer.hpp>

namespace rapt::nn {
namespace {

/// With recomputation a layer is cut off from its neighbours: the pending addition is made at its end.
Tensor settled(const Stream& s, float p, Context& ctx) {
  return s.pending ? add(s.x, dropout(s.pending, ctx.dropout(p), ctx.next_random())) : s.x;
}

}  // namespace

Tensor EncoderStack::operator()(const Tensor& x, const Mask& mask, Context& ctx) const {
  Stream s{x, {}};
  for (const EncoderLayer& layer : layers) {
    if (!ctx.recompute) {
      layer(s, mask, ctx);
      continue;
    }
    s.x = recomputed(
        [&layer, mask, p = p](std::span<const Tensor> in, Context& inner) {
          Stream own{in[0], {}};
          layer(own, mask, inner);
          return settled(own, p, inner);
        },
        {s.x}, ctx);
  }
  return final_norm ? Residual::settle(s, *final_norm, p, ctx) : s.x;
}

Tensor DecoderStack::operator()(const Tensor& y, const Tensor& memory, const Mask& self_mask, const Mask& memory_mask,
                                Context& ctx) const {
  Stream s{y, {}};
  for (const DecoderLayer& layer : layers) {
    if (!ctx.recompute) {
      layer(s, memory, self_mask, memory_mask, ctx);
      continue;
    }
    s.x = recomputed(
        [&layer, self_mask, memory_mask, p = p](std::span<const Tensor> in, Context& inner) {
          Stream own{in[0], {}};
          layer(own, in[1], self_mask, memory_mask, inner);
          return settled(own, p, inner);
        },
        {s.x, memory}, ctx);
  }
  return final_norm ? Residual::settle(s, *final_norm, p, ctx) : s.x;
}

}  // namespace rapt::nn
