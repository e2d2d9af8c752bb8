#pragma once

namespace rapt::kernels::cpu {

/// What this processor and its operating system let us use, asked once.
struct Features {
  bool avx2 = false;    ///< with FMA and F16C
  bool avx512 = false;  ///< F, BW, DQ, VL, CD
  bool avx512vnni = false;
  bool avx512bf16 = false;
  bool amx_bf16 = false;  ///< with tile state granted by the kernel to this process
  bool amx_int8 = false;
};
const Features& features();

}  // namespace rapt::kernels::cpu
