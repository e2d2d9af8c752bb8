#pragma once
// The tile registers of AMX, for the files that are compiled for it: everything here has internal linkage.
#include <cstdint>

namespace rapt::kernels::cpu {
namespace {

/// The 64 bytes that LDTILECFG reads (palette 1): all eight tiles are 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);
constexpr TileConfig kTileConfig;

inline void configure_tiles() { asm volatile("ldtilecfg %0" : : "m"(kTileConfig)); }
/// A thread that keeps tiles in use carries 8 KiB through every context switch, and its core may not sleep deeply.
inline void release_tiles() { asm volatile("tilerelease" : : : "memory"); }

/// The compiler's intrinsics are macros that paste the number of the register and do not say that they touch memory, so
/// the instructions are written out. Assembly that is volatile keeps its order; "memory" orders it with the packing
/// before.
struct TileRegisters {
  template <int t>
  static void load(const void* p, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(t) : "memory");
  }
  /// The same for what is not read again soon: it leaves the first cache to the other operand. Measured on a product
  /// of 256 x 512 x 512, this takes the unit from 52 % to 71 % of its speed.
  template <int t>
  static void load_passing(const void* p, int64_t stride) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(t) : "memory");
  }
  template <int t>
  static void store(void* p, int64_t stride) {
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
}  // namespace rapt::kernels::cpu
