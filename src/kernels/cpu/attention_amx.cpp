// Products on the tiles of AMX; everything else is as in attention_avx512bf16.cpp, which every processor with AMX runs.
#include <kernels/cpu/attention_tiles.hpp>

namespace rapt::kernels::cpu::attention {

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AVX512BF16__)
namespace {

/// The 64 bytes that LDTILECFG reads.
struct alignas(64) TileConfig {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes_a_row[16];
  uint8_t rows[16];
};
constexpr TileConfig kConfig{1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
static_assert(sizeof(TileConfig) == 64);

void configure_tiles() { asm volatile("ldtilecfg %0" ::"m"(kConfig)); }
void release_tiles() { asm volatile("tilerelease" ::: "memory"); }

/// The instructions by hand, because the compiler's intrinsics do not say that they read and write memory.
struct AmxTiles {
  template <int T>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(T));
  }
  template <int T>
  static void load(const void* from, int64_t bytes_a_row) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(bytes_a_row), "i"(T) : "memory");
  }
  template <int T>
  static void store(void* to, int64_t bytes_a_row) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(bytes_a_row), "i"(T) : "memory");
  }
  template <int C, int A, int B>
  static void dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
};

}  // namespace

const Unit* amx_unit() {
  static const Unit unit = [] {
    Unit u = *avx512bf16_unit();
    u.inner_multiple = 32;
    u.enter = configure_tiles;
    u.leave = release_tiles;
    u.multiply = multiply_with_tiles<AmxTiles>;
    return u;
  }();
  return &unit;
}
#else
const Unit* amx_unit() { return nullptr; }
#endif

}  // namespace rapt::kernels::cpu::attention
