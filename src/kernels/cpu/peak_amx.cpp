#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>

namespace rapt::kernels::cpu {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfig kConfig;

/// Four sums over the same pair of operands, all zero: the time of a tile product does not depend on its values.
template <class Dot>
double run(int64_t rounds, double operations_a_tile, Dot dot) {
  _tile_loadconfig(&kConfig);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t r = 0; r < rounds; ++r) dot();
  _tile_release();
  return double(rounds) * 4 * operations_a_tile;
}

}  // namespace

double run_peak_amx_bf16(int64_t rounds) {
  return run(rounds, 16 * 16 * 32 * 2, [] {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  });
}

double run_peak_amx_int8(int64_t rounds) {
  return run(rounds, 16 * 16 * 64 * 2, [] {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  });
}

}  // namespace rapt::kernels::cpu
#endif
