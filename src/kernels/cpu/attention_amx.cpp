// Products on the tiles of AMX; everything else is as in attention_avx512bf16.cpp, which every processor with AMX runs.
#include <kernels/cpu/amx_tiles.hpp>
#include <kernels/cpu/attention_tiles.hpp>

namespace rapt::kernels::cpu::attention {

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AVX512BF16__)
const Unit* amx_unit() {
  static const Unit unit = [] {
    Unit u = *avx512bf16_unit();
    u.inner_multiple = 32;
    u.enter = configure_tiles;
    u.leave = release_tiles;
    u.multiply = multiply_with_tiles<Bf16Tiles>;
    return u;
  }();
  return &unit;
}
#else
const Unit* amx_unit() { return nullptr; }
#endif

}  // namespace rapt::kernels::cpu::attention
