#include <kernels/cpu/features.hpp>
#include <kernels/cpu/gemm.hpp>
#include <kernels/cpu/gemm_driver.hpp>
#include <kernels/cpu/gemm_kernels.hpp>

namespace rapt::kernels::cpu {
namespace {

bool like_c(const Tensor& t, const Gemm& g) { return !t || t.dtype() == g.c.dtype(); }

bool is_f32(const Gemm& g) {
  return g.a.dtype() == DType::f32 && g.b.dtype() == DType::f32 && g.c.dtype() == DType::f32;
}
bool is_bf16(const Gemm& g) {
  const auto small = [](DType t) { return t == DType::bf16; };
  const auto either = [](DType t) { return t == DType::bf16 || t == DType::f32; };
  return (small(g.a.dtype()) || small(g.b.dtype())) && either(g.a.dtype()) && either(g.b.dtype()) &&
         either(g.c.dtype());
}
bool is_int8(const Gemm& g) {
  return g.a.dtype() == DType::i8 && g.b.dtype() == DType::i8 && g.c.dtype() == DType::i32 && !g.bias && !g.residual &&
         !g.pre_activation && g.activation == Activation::none;
}
bool takes_layout(const Gemm& g) { return driver_takes(g) && like_c(g.residual, g) && like_c(g.pre_activation, g); }

using Predicate = bool (*)(const Gemm&);

template <Predicate kTypes>
bool supports(const Gemm& g) {
  return kTypes(g) && takes_layout(g);
}
bool is_float(const Gemm& g) { return is_f32(g) || is_bf16(g); }
bool is_any(const Gemm& g) { return is_float(g) || is_int8(g); }

#if defined(__x86_64__)
template <const GemmKernel& kKernel>
void run(const Gemm& g) {
  run_gemm(kKernel, g);
}
template <const GemmKernel& kF32, const GemmKernel& kBf16>
void run_float(const Gemm& g) {
  run_gemm(is_f32(g) ? kF32 : kBf16, g);
}
#endif
void run_portable(const Gemm& g) { run_gemm(is_int8(g) ? kPortableInt8 : is_f32(g) ? kPortableF32 : kPortableBf16, g); }

}  // namespace

using Entry = Implementation<Gemm>;
#if defined(__x86_64__)
const Entry kGemmAmxBf16{"amx_bf16", [] { return features().amx_bf16; }, supports<is_bf16>, run<kAmxBf16>};
const Entry kGemmAvx512Bf16{"avx512_bf16", [] { return features().avx512bf16; }, supports<is_bf16>, run<kAvx512Bf16>};
const Entry kGemmAmxInt8{"amx_int8", [] { return features().amx_int8; }, supports<is_int8>, run<kAmxInt8>};
const Entry kGemmAvx512Vnni{"avx512_vnni", [] { return features().avx512vnni; }, supports<is_int8>, run<kAvx512Vnni>};
const Entry kGemmAvx512F32{"avx512_f32", [] { return features().avx512; }, supports<is_float>,
                           run_float<kAvx512F32, kAvx512RoundedBf16>};
const Entry kGemmAvx2F32{"avx2_f32", [] { return features().avx2; }, supports<is_float>,
                         run_float<kAvx2F32, kAvx2Bf16>};
#else
// Elsewhere these names are known, and not available.
static bool never() { return false; }
const Entry kGemmAmxBf16{"amx_bf16", never, supports<is_bf16>, run_portable};
const Entry kGemmAvx512Bf16{"avx512_bf16", never, supports<is_bf16>, run_portable};
const Entry kGemmAmxInt8{"amx_int8", never, supports<is_int8>, run_portable};
const Entry kGemmAvx512Vnni{"avx512_vnni", never, supports<is_int8>, run_portable};
const Entry kGemmAvx512F32{"avx512_f32", never, supports<is_float>, run_portable};
const Entry kGemmAvx2F32{"avx2_f32", never, supports<is_float>, run_portable};
#endif
const Entry kGemmPortable{"portable", [] { return true; }, supports<is_any>, run_portable};

}  // namespace rapt::kernels::cpu
