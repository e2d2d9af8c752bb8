#if defined(__x86_64__)
#include <kernels/cpu/amx_tiles.hpp>
#include <kernels/cpu/gemm_kernels.hpp>
#include <kernels/cpu/gemm_tiles.hpp>

namespace rapt::kernels::cpu {

const GemmKernel kAmxBf16 = {.mr = 32,
                             .nr = 32,
                             .a_form = Packed::bf16,
                             .b_form = Packed::bf16,
                             .tiles = true,
                             .unit_multiple = 16,
                             .k_units = 256,
                             .m_limit = 256,
                             .compensated = false,
                             .multiply = multiply_tiles<Bf16Tiles>,
                             .multiply_few = nullptr,
                             .pack = pack_avx512,
                             .finish = finish_avx512bf16,
                             .begin = configure_tiles,
                             .end = release_tiles};
const GemmKernel kAmxInt8 = {.mr = 32,
                             .nr = 32,
                             .a_form = Packed::s8,
                             .b_form = Packed::s8,
                             .tiles = true,
                             .unit_multiple = 16,
                             .k_units = 256,
                             .m_limit = 256,
                             .compensated = false,
                             .multiply = multiply_tiles<Int8Tiles>,
                             .multiply_few = nullptr,
                             .pack = pack_avx512,
                             .finish = finish_s32,
                             .begin = configure_tiles,
                             .end = release_tiles};

}  // namespace rapt::kernels::cpu
#endif
