#pragma once
// What the primitives share.
#include <base/fail.hpp>
#include <kernels/kernels.hpp>
#include <rapt/autograd/tape.hpp>
#include <rapt/ops/ops.hpp>

namespace rapt {

/// What a node may keep: the values without their place on the tape, so that no cycle keeps memory alive.
inline Tensor saved(const Tensor& t) { return t ? stop_gradient(t) : t; }

/// f32 for f32 and bf16 activations, f64 for f64: statistics, losses, weights.
inline DType wide(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

inline void require_float(const char* op, const Tensor& t, const char* what) {
  require<DTypeError>(t.defined(), "[{}] {} is undefined", op, what);
  require<DTypeError>(t.dtype() == DType::f64 || t.dtype() == DType::f32 || t.dtype() == DType::bf16,
                      "[{}] {} is {}; f64, f32 or bf16 is needed", op, what, to_string(t.dtype()));
}
inline void require_dtype(const char* op, const Tensor& t, const char* what, DType wanted) {
  require<DTypeError>(t.defined(), "[{}] {} is undefined", op, what);
  require<DTypeError>(t.dtype() == wanted, "[{}] {} is {}; {} is needed", op, what, to_string(t.dtype()),
                      to_string(wanted));
}
inline void require_shape(const char* op, const Tensor& t, const char* what, const Shape& wanted) {
  require<ShapeError>(t.shape() == wanted, "[{}] {} has shape {}; {} is needed", op, what, to_string(t.shape()),
                      to_string(wanted));
}
/// Lengths of sequences: i32 [B], each in [0, limit].
void require_lengths(const char* op, const Tensor& lengths, int64_t batch, int64_t limit);

/// x as [N, D] with its last axis kept.
inline Tensor as_rows(const Tensor& x) {
  require<ShapeError>(x.rank() >= 1, "[rows] a single number has no last axis");
  const int64_t d = x.size(-1);
  return x.view({d == 0 ? 0 : x.numel() / d, d});
}

/// result (+)= grad: hands the buffer on when nothing else needs it, else copies or adds.
void pass_gradient(Grads& g, int input, const Tensor& grad);

}  // namespace rapt
