#pragma once
// How a product is cut into blocks that fit the caches, and where packed blocks lie.
#include <kernels/cpu/gemm_micro.hpp>

namespace rapt::kernels::cpu {

struct Caches {
  int64_t l1 = 32 << 10, l2 = 1 << 20;  ///< bytes of data that a core has for itself
};
const Caches& caches();  ///< asked once of the system; these defaults where it does not say

constexpr int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }
constexpr int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

/// k is cut into `k_blocks` of `k_block` elements (the last may be shorter), so that a panel of B of that depth stays in
/// the first cache while the rows of A pass. C is cut into tasks of `m_block` x `n_block`, whose rows of A stay in the
/// second cache while the panels of B pass.
struct Blocks {
  int64_t group;                     ///< elements of k in a unit of four bytes
  int64_t k_block, k_blocks, units;  ///< units: of a whole block, padded
  int64_t m_block, n_block;
  int64_t panel_bytes;  ///< one packed panel of B of one k block, with its compensation
};
Blocks choose_blocks(const GemmKernel& kernel, int64_t m, int64_t n, int64_t k, int64_t batch, bool c_holds_sums);

}  // namespace rapt::kernels::cpu
