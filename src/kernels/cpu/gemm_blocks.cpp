#include <kernels/cpu/gemm_blocks.hpp>
#include <rapt/base/threads.hpp>

#include <unistd.h>

#include <algorithm>

namespace rapt::kernels::cpu {

const Caches& caches() {
  static const Caches found = [] {
    Caches c;
#if defined(_SC_LEVEL1_DCACHE_SIZE) && defined(_SC_LEVEL2_CACHE_SIZE)
    if (const long l1 = sysconf(_SC_LEVEL1_DCACHE_SIZE); l1 > 0) c.l1 = l1;
    if (const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE); l2 > 0) c.l2 = l2;
#endif
    return c;
  }();
  return found;
}

Blocks choose_blocks(const GemmKernel& kernel, int64_t m, int64_t n, int64_t k, int64_t batch, bool c_holds_sums) {
  constexpr int64_t kTasksPerThread = 4;
  Blocks b;
  b.group = kernel.b_form == Packed::bf16 ? 2 : kernel.b_form == Packed::s8 ? 4 : 1;
  const int64_t step = b.group * kernel.unit_multiple;
  b.k_blocks = std::max<int64_t>(1, divide_up(k, kernel.k_units * b.group));
  b.k_block = round_up(divide_up(k, b.k_blocks), step);
  b.k_blocks = std::max<int64_t>(1, divide_up(k, std::max<int64_t>(1, b.k_block)));
  b.units = b.k_block / b.group;
  b.panel_bytes = round_up(4 * kernel.nr * (b.units + (kernel.compensated ? 1 : 0)), 64);

  const int64_t rows_in_cache = caches().l2 / 2 / std::max<int64_t>(1, 4 * b.units);
  const int64_t m_limit = std::clamp<int64_t>(rows_in_cache, kernel.mr, kernel.m_limit);
  // Where C cannot hold partial sums, a block of them in f32 is kept in the second cache too.
  const int64_t n_limit = !c_holds_sums && b.k_blocks > 1 ? 512 : 2048;
  int64_t m_parts = std::max<int64_t>(1, divide_up(m, m_limit)), n_parts = std::max<int64_t>(1, divide_up(n, n_limit));
  const int64_t wanted = thread_count() == 1 ? 1 : kTasksPerThread * thread_count();
  const auto m_block = [&] { return round_up(divide_up(m, m_parts), kernel.mr); };
  const auto n_block = [&] { return round_up(divide_up(n, n_parts), kernel.nr); };
  while (batch * m_parts * n_parts < wanted) {
    // Narrow tasks pack A more often, low ones read B more often: cut the longer side, down to a few tiles.
    if (n_block() > std::max(4 * kernel.nr, m_block()))
      n_parts *= 2;
    else if (m_block() > 4 * kernel.mr)
      m_parts *= 2;
    else if (n_block() > 2 * kernel.nr)
      n_parts *= 2;
    else
      break;
  }
  b.m_block = m_block();
  b.n_block = n_block();
  return b;
}

}  // namespace rapt::kernels::cpu
