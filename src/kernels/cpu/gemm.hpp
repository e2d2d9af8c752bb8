#pragma once
// The matrix product on the CPU. Those with bf16 or int8 in their name take that type; the other two vector ones take f32,
// and bf16 by way of f32 with the roundings of the contract; the portable one takes all of these.
#include <kernels/kernels.hpp>

namespace rapt::kernels::cpu {

extern const Implementation<Gemm> kGemmAmxBf16, kGemmAvx512Bf16;
extern const Implementation<Gemm> kGemmAmxInt8, kGemmAvx512Vnni;
extern const Implementation<Gemm> kGemmAvx512F32, kGemmAvx2F32;
extern const Implementation<Gemm> kGemmPortable;

}  // namespace rapt::kernels::cpu
