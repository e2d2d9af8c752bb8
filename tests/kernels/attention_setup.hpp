#pragma once
// Attention calls under test: sizes and masks, the tensors of both passes, and who computes them.
#include <kernels/kernels.hpp>
#include <support/compare.hpp>

#include <functional>
#include <string>
#include <vector>

namespace rapt::testing {

struct AttentionCase {
  int64_t batch = 1, queries = 1, keys = 1, heads = 1, key_heads = 1, d_k = 1, d_v = 1;
  bool causal = false, slopes = false, accumulate = false;
  std::vector<int32_t> lengths = {};  ///< empty: all keys
  float p = 0;
  bool fused = false;  ///< q, k, v are slices of one [B, T, 3, h, d]; needs equal sizes

  std::string name() const {
    std::string text = "B" + std::to_string(batch) + " Tq" + std::to_string(queries) + " Tk" + std::to_string(keys) +
                       " h" + std::to_string(heads) + "/" + std::to_string(key_heads) + " dk" + std::to_string(d_k) +
                       " dv" + std::to_string(d_v);
    for (const int32_t n : lengths) text += " len" + std::to_string(n);
    return text + (causal ? " causal" : "") + (slopes ? " slopes" : "") + (p > 0 ? " dropout" : "") +
           (fused ? " fused" : "") + (accumulate ? " accumulate" : "");
  }
};

/// All tensors of a forward and a backward call.
struct AttentionTensors {
  kernels::AttentionForward forward;
  kernels::AttentionBackward backward;

  AttentionTensors(const AttentionCase& c, DType dtype) {
    const DType master = dtype == DType::f64 ? DType::f64 : DType::f32;
    uint64_t stream = 0;
    const auto input = [&](const Shape& shape) { return random_tensor(shape, dtype, {42, ++stream}); };
    auto& f = forward;
    auto& b = backward;
    if (c.fused) {
      const Tensor x = input({c.batch, c.queries, 3, c.heads, c.d_k}), dx = input(x.shape());
      f.q = x.select(2, 0), f.k = x.select(2, 1), f.v = x.select(2, 2);
      b.dq = dx.select(2, 0), b.dk = dx.select(2, 1), b.dv = dx.select(2, 2);
    } else {
      f.q = input({c.batch, c.queries, c.heads, c.d_k});
      f.k = input({c.batch, c.keys, c.key_heads, c.d_k});
      f.v = input({c.batch, c.keys, c.key_heads, c.d_v});
      b.dq = input(f.q.shape()), b.dk = input(f.k.shape()), b.dv = input(f.v.shape());
    }
    f.o = Tensor::full({c.batch, c.queries, c.heads, c.d_v}, 7, dtype);
    f.lse = Tensor::full({c.batch, c.heads, c.queries}, 7, master);
    if (!c.lengths.empty()) f.mask.lengths = Tensor::from(c.lengths, {c.batch});
    if (c.slopes) f.mask.slopes = random_tensor({c.heads}, DType::f32, {42, 99}, 0.1);
    f.mask.causal = c.causal;
    f.scale = 1 / std::sqrt(double(c.d_k));
    f.p = c.p;
    f.random = {7, 8};
    b.q = f.q, b.k = f.k, b.v = f.v, b.o = f.o, b.lse = f.lse, b.mask = f.mask;
    b.d_o = input(f.o.shape());
    b.accumulate_dq = b.accumulate_dk = b.accumulate_dv = c.accumulate;
    b.scale = f.scale, b.p = f.p, b.random = f.random;
  }

  /// The same numbers in f64, in tensors of their own; o and lse too, as rounded as they are here.
  AttentionTensors in_double(const AttentionCase& c) const {
    AttentionTensors t(c, DType::f64);
    const auto copy = [](const Tensor& from, const Tensor& to) { to.copy_from(from); };
    copy(forward.q, t.forward.q), copy(forward.k, t.forward.k), copy(forward.v, t.forward.v);
    copy(forward.o, t.forward.o), copy(forward.lse, t.forward.lse), copy(backward.d_o, t.backward.d_o);
    copy(backward.dq, t.backward.dq), copy(backward.dk, t.backward.dk), copy(backward.dv, t.backward.dv);
    return t;
  }
};

/// Someone who computes both passes.
struct AttentionCandidate {
  std::string name;
  std::function<bool(const AttentionTensors&)> supports;
  std::function<void(const kernels::AttentionForward&)> forward;
  std::function<void(const kernels::AttentionBackward&)> backward;
};

}  // namespace rapt::testing
