#include <kernels/cpu/attention.hpp>
#include <kernels/cpu/attention_problem.hpp>
#include <kernels/cpu/features.hpp>

#include <initializer_list>

namespace rapt::kernels::cpu {
namespace {

using attention::Unit;

bool have_unit_rows(std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* t : tensors)
    if (t->stride(-1) != 1 && t->size(-1) > 1) return false;
  return true;
}

bool have_unit_rows(const AttentionForward& a) { return have_unit_rows({&a.q, &a.k, &a.v, &a.o}); }
bool have_unit_rows(const AttentionBackward& a) {
  return have_unit_rows({&a.q, &a.k, &a.v, &a.o, &a.d_o, &a.dq, &a.dk, &a.dv});
}

/// A scale that is not positive would turn maxima into minima; p = 1 and empty tensors are for the reference.
template <class Args>
bool supports(const Args& a) {
  const DType dtype = a.q.dtype();
  return (dtype == DType::f32 || dtype == DType::bf16) && a.scale > 0 && a.p < 1 && a.q.numel() > 0 &&
         a.k.numel() > 0 && a.v.numel() > 0 && have_unit_rows(a);
}

/// Few queries are not worth the packing of the keys.
bool is_decoding(const AttentionForward& a) { return a.q.size(1) <= attention::kDecodeQueries; }
bool is_decoding(const AttentionBackward&) { return false; }

template <class Args>
bool supports_bf16(const Args& a) {
  return a.q.dtype() == DType::bf16 && !is_decoding(a) && supports(a);
}

bool always() { return true; }
bool has_bf16() { return attention::avx512bf16_unit() && features().avx512bf16; }
bool has_amx() { return attention::amx_unit() && features().amx_bf16; }

void run(const AttentionForward& a, const Unit& unit) { attention::forward(a, unit); }
void run(const AttentionBackward& a, const Unit& unit) { attention::backward(a, unit); }

template <class Args>
void run_vector(const Args& a) {
  const bool bf16 = a.q.dtype() == DType::bf16;
  if constexpr (std::is_same_v<Args, AttentionForward>)
    if (is_decoding(a)) return attention::decode(a);
  run(a, attention::vector_unit(bf16));
}
template <class Args>
void run_bf16(const Args& a) {
  run(a, *attention::avx512bf16_unit());
}
template <class Args>
void run_amx(const Args& a) {
  run(a, *attention::amx_unit());
}

template <class Args>
constexpr Implementation<Args> kAmx{"streaming_amx", has_amx, supports_bf16<Args>, run_amx<Args>};
template <class Args>
constexpr Implementation<Args> kBf16{"streaming_bf16", has_bf16, supports_bf16<Args>, run_bf16<Args>};
template <class Args>
constexpr Implementation<Args> kVector{"streaming", always, supports<Args>, run_vector<Args>};

}  // namespace

constexpr Implementation<AttentionForward> kAttentionForwardAmx = kAmx<AttentionForward>;
constexpr Implementation<AttentionForward> kAttentionForwardBf16 = kBf16<AttentionForward>;
constexpr Implementation<AttentionForward> kAttentionForwardVector = kVector<AttentionForward>;
constexpr Implementation<AttentionBackward> kAttentionBackwardAmx = kAmx<AttentionBackward>;
constexpr Implementation<AttentionBackward> kAttentionBackwardBf16 = kBf16<AttentionBackward>;
constexpr Implementation<AttentionBackward> kAttentionBackwardVector = kVector<AttentionBackward>;

}  // namespace rapt::kernels::cpu
