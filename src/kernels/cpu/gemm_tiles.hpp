#pragma once
// The product of tiles, over a tile unit: eight registers of 16 rows of 64 bytes. The hardware is one such unit
// (gemm_amx.cpp), a plain-loop model of it in the tests is another. Everything here has internal linkage.
#include <kernels/cpu/gemm_micro.hpp>

namespace rapt::kernels::cpu {
namespace {

/// C[32, 32] (+)= A B, or its upper 16 rows alone. The registers hold
///        | B0 6  B1 7
///   A0 4 |  C 0   C 1
///   A1 5 |  C 2   C 3
/// Each operand is a row of pairs of tiles along k, 2 KiB a pair in one piece, so that the processor sees two streams
/// to fetch ahead. With rows of A read in their place, 16 distant lines a tile, the hardware ran at half its speed.
/// B stays in the first cache from tile to tile, A passes through it.
/// A unit gives load<t>(p, stride), load_passing<t>(p, stride), store<t>(p, stride), zero<t>(), dot<c, a, b>(), strides in bytes.
template <class Unit, bool kLower>
void multiply_tile_rows(const MultiplyJob& job) {
  constexpr int64_t kRow = 64, kTile = 16 * kRow;
  char* c = static_cast<char*>(job.c);
  const int64_t c_row = 4 * job.c_stride, c_lower = 16 * c_row;
  if (job.accumulate) {
    Unit::template load<0>(c, c_row);
    Unit::template load<1>(c + kRow, c_row);
    if constexpr (kLower) {
      Unit::template load<2>(c + c_lower, c_row);
      Unit::template load<3>(c + c_lower + kRow, c_row);
    }
  } else {
    Unit::template zero<0>();
    Unit::template zero<1>();
    if constexpr (kLower) {
      Unit::template zero<2>();
      Unit::template zero<3>();
    }
  }
  const char* a = static_cast<const char*>(job.a);
  const char* b = static_cast<const char*>(job.b);
  for (int64_t unit = 0; unit < job.units; unit += 16, a += 2 * kTile, b += 2 * kTile) {
    Unit::template load<6>(b, kRow);
    Unit::template load_passing<4>(a, kRow);
    Unit::template dot<0, 4, 6>();
    Unit::template load<7>(b + kTile, kRow);
    Unit::template dot<1, 4, 7>();
    if constexpr (kLower) {
      Unit::template load_passing<5>(a + kTile, kRow);
      Unit::template dot<2, 5, 6>();
      Unit::template dot<3, 5, 7>();
    }
  }
  Unit::template store<0>(c, c_row);
  Unit::template store<1>(c + kRow, c_row);
  if constexpr (kLower) {
    Unit::template store<2>(c + c_lower, c_row);
    Unit::template store<3>(c + c_lower + kRow, c_row);
  }
}

template <class Unit>
void multiply_tiles(const MultiplyJob& job) {
  job.rows > 16 ? multiply_tile_rows<Unit, true>(job) : multiply_tile_rows<Unit, false>(job);
}

}  // namespace
}  // namespace rapt::kernels::cpu
