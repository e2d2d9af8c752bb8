#if defined(__x86_64__)
#include <kernels/cpu/gemm_kernels.hpp>
#include <kernels/cpu/gemm_tiles.hpp>

#include <immintrin.h>

namespace rapt::kernels::cpu {
namespace {

/// The 64 bytes that LDTILECFG reads (palette 1).
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};  ///< of tiles 0 to 7; the rest stays 0
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

constexpr TileConfig whole_tiles() {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = 64;
    config.rows[t] = 16;
  }
  return config;
}
/// Constant memory: the intrinsic names only the first bytes of what it reads, so stores into a local could be dropped.
constexpr TileConfig kConfig = whole_tiles();
void load_config() { _tile_loadconfig(&kConfig); }
/// A thread that keeps tiles in use carries 8 KiB through every context switch, and its core may not sleep deeply.
void release_config() { _tile_release(); }

/// The compiler's intrinsics are macros that paste the number of the register, so a template parameter needs the
/// instructions themselves. Assembly that is volatile keeps its order; "memory" orders it with the packing before.
struct TileRegisters {
  template <int t>
  static void load(const char* p, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(t) : "memory");
  }
  /// The same for what is not read again soon: it leaves the first cache to the other operand. Measured on a product
  /// of 256 x 512 x 512, this takes the unit from 52 % to 71 % of its speed.
  template <int t>
  static void load_passing(const char* p, int64_t stride) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(t) : "memory");
  }
  template <int t>
  static void store(char* p, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(p), "r"(stride), "i"(t) : "memory");
  }
  template <int t>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(t));
  }
};
struct Bf16Tiles : TileRegisters {
  template <int c, int a, int b>
  static void dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
};
struct Int8Tiles : TileRegisters {
  template <int c, int a, int b>
  static void dot() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
};

}  // namespace

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
                             .begin = load_config,
                             .end = release_config};
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
                             .begin = load_config,
                             .end = release_config};

}  // namespace rapt::kernels::cpu
#endif
