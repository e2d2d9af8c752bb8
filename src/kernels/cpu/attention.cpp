#include <kernels/cpu/attention.hpp>
#include <kernels/cpu/attention_problem.hpp>
#include <kernels/cpu/features.hpp>

#include <initializer_list>

namespace rapt::kernels::cpu {
namespace {

using attention::Unit;

bool has_unit_rows(std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* t : tensors)
    if (t->stride(-1) != 1 && t->size(-1) > 1) return false;
  return true;
}

/// A negative scale would turn maxima into minima; p = 1 and empty tensors are for the reference.
template <class Args>
bool streams(const Args& a) {
  const DType dtype = a.q.dtype();
  return (dtype == DType::f32 || dtype == DType::bf16) && a.scale > 0 && a.p < 1 && a.q.numel() > 0 &&
         a.k.numel() > 0 && a.v.numel() > 0 && a.q.size(2) % a.k.size(2) == 0;
}

template <class Args>
bool is_bf16(const Args& a) {
  return a.q.dtype() == DType::bf16;
}

}  // namespace

bool StreamingAttention::available() { return true; }
bool StreamingAttention::supports(const AttentionForward& a) {
  return streams(a) && has_unit_rows({&a.q, &a.k, &a.v, &a.o});
}
bool StreamingAttention::supports(const AttentionBackward& a) {
  return streams(a) && has_unit_rows({&a.q, &a.k, &a.v, &a.o, &a.d_o, &a.dq, &a.dk, &a.dv});
}
void StreamingAttention::run(const AttentionForward& a) { attention::forward(a, attention::vector_unit(is_bf16(a))); }
void StreamingAttention::run(const AttentionBackward& a) { attention::backward(a, attention::vector_unit(is_bf16(a))); }

bool StreamingAttentionBf16::available() { return attention::avx512bf16_unit() && features().avx512bf16; }
bool StreamingAttentionBf16::supports(const AttentionForward& a) {
  return is_bf16(a) && StreamingAttention::supports(a);
}
bool StreamingAttentionBf16::supports(const AttentionBackward& a) {
  return is_bf16(a) && StreamingAttention::supports(a);
}
void StreamingAttentionBf16::run(const AttentionForward& a) { attention::forward(a, *attention::avx512bf16_unit()); }
void StreamingAttentionBf16::run(const AttentionBackward& a) { attention::backward(a, *attention::avx512bf16_unit()); }

bool StreamingAttentionAmx::available() { return attention::amx_unit() && features().amx_bf16; }
bool StreamingAttentionAmx::supports(const AttentionForward& a) { return StreamingAttentionBf16::supports(a); }
bool StreamingAttentionAmx::supports(const AttentionBackward& a) { return StreamingAttentionBf16::supports(a); }
void StreamingAttentionAmx::run(const AttentionForward& a) { attention::forward(a, *attention::amx_unit()); }
void StreamingAttentionAmx::run(const AttentionBackward& a) { attention::backward(a, *attention::amx_unit()); }

}  // namespace rapt::kernels::cpu
