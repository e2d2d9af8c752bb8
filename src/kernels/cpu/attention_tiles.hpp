#pragma once
// C (+)= A B in bf16 on eight tiles of 16 rows of 64 bytes. The tile unit is a parameter: the instructions of AMX in
// attention_amx.cpp, an emulation of them in the tests.
#include <kernels/cpu/attention_unit.hpp>

namespace rapt::kernels::cpu::attention {

/// Tiles::zero<t>(), load<t>(from, bytes a row), store<t>(to, bytes a row), and dot<c, a, b>():
/// c[m, n] += sum over k < 32 of a[m, k] b[k / 2, n, k mod 2], with a and b in bf16 and c in f32.
/// Tiles 0..3 hold 2 x 2 blocks of C, 4 and 5 the blocks of A, 6 and 7 those of B.
template <class Tiles, bool kTwoRows, bool kTwoColumns>
static inline void multiply_tiles(const Product& p, int row, int column) {
  const char* a = static_cast<const char*>(p.a) + 2 * (row * p.a_stride);
  const char* b = static_cast<const char*>(p.b) + 4 * column;
  float* c = p.c + row * p.c_stride + column;
  const int64_t a_bytes = 2 * p.a_stride, b_bytes = 4 * p.b_stride, c_bytes = 4 * p.c_stride;
  float* below = c + kTile * p.c_stride;
  if (p.accumulate) {
    Tiles::template load<0>(c, c_bytes);
    if constexpr (kTwoColumns) Tiles::template load<1>(c + kTile, c_bytes);
    if constexpr (kTwoRows) Tiles::template load<2>(below, c_bytes);
    if constexpr (kTwoRows && kTwoColumns) Tiles::template load<3>(below + kTile, c_bytes);
  } else {
    Tiles::template zero<0>();
    if constexpr (kTwoColumns) Tiles::template zero<1>();
    if constexpr (kTwoRows) Tiles::template zero<2>();
    if constexpr (kTwoRows && kTwoColumns) Tiles::template zero<3>();
  }
  for (int k = 0; k < p.k; k += 32, a += 64, b += 16 * b_bytes) {
    Tiles::template load<4>(a, a_bytes);
    Tiles::template load<6>(b, b_bytes);
    Tiles::template dot<0, 4, 6>();
    if constexpr (kTwoColumns) {
      Tiles::template load<7>(b + 64, b_bytes);
      Tiles::template dot<1, 4, 7>();
    }
    if constexpr (kTwoRows) {
      Tiles::template load<5>(a + kTile * a_bytes, a_bytes);
      Tiles::template dot<2, 5, 6>();
    }
    if constexpr (kTwoRows && kTwoColumns) Tiles::template dot<3, 5, 7>();
  }
  Tiles::template store<0>(c, c_bytes);
  if constexpr (kTwoColumns) Tiles::template store<1>(c + kTile, c_bytes);
  if constexpr (kTwoRows) Tiles::template store<2>(below, c_bytes);
  if constexpr (kTwoRows && kTwoColumns) Tiles::template store<3>(below + kTile, c_bytes);
}

template <class Tiles>
static inline void multiply_with_tiles(const Product& p) {
  for (int row = 0; row < p.m; row += 2 * kTile) {
    const bool two_rows = p.m - row > kTile;
    for (int column = 0; column < p.n; column += 2 * kTile) {
      const bool two_columns = p.n - column > kTile;
      if (two_rows && two_columns)
        multiply_tiles<Tiles, true, true>(p, row, column);
      else if (two_rows)
        multiply_tiles<Tiles, true, false>(p, row, column);
      else if (two_columns)
        multiply_tiles<Tiles, false, true>(p, row, column);
      else
        multiply_tiles<Tiles, false, false>(p, row, column);
    }
  }
}

}  // namespace rapt::kernels::cpu::attention
