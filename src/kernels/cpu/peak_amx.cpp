#if defined(__x86_64__)
#include <kernels/cpu/amx_tiles.hpp>

namespace rapt::kernels::cpu {
namespace {

/// Four sums over the same operands, all zero: the time of a tile product does not depend on its values.
template <class Unit>
double run(int64_t rounds, double operations_a_tile) {
  configure_tiles();  // also clears all tiles
  for (int64_t r = 0; r < rounds; ++r) {
    Unit::template dot<0, 4, 6>();
    Unit::template dot<1, 4, 7>();
    Unit::template dot<2, 5, 6>();
    Unit::template dot<3, 5, 7>();
  }
  release_tiles();
  return double(rounds) * 4 * operations_a_tile;
}

}  // namespace

double run_peak_amx_bf16(int64_t rounds) { return run<Bf16Tiles>(rounds, 16 * 16 * 32 * 2); }
double run_peak_amx_int8(int64_t rounds) { return run<Int8Tiles>(rounds, 16 * 16 * 64 * 2); }

}  // namespace rapt::kernels::cpu
#endif
