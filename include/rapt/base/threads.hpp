#pragma once
#include <cstdint>
#include <type_traits>

namespace rapt {

/// Threads that work together on one operation, the caller included. At start: the cores that affinity and cgroup
/// quota leave to this process. Results never depend on this number.
int thread_count();
void set_thread_count(int n);

namespace detail {
using RangeBody = void (*)(void* context, int64_t begin, int64_t end);
void run_ranges(int64_t n, int64_t grain, RangeBody body, void* context);
}  // namespace detail

/// Calls `body(begin, end)` on disjoint pieces of [0, n) of `grain` each (the last may be smaller; with one thread it is
/// all one piece), and returns when all are done.
/// Pieces are handed out as threads become free, so a thread that loses its core to another process delays one piece,
/// not the operation. An exception in `body` is rethrown here. Nested calls run in place.
template <class Body>
void parallel_for(int64_t n, int64_t grain, Body&& body) {
  using B = std::remove_reference_t<Body>;
  detail::run_ranges(
      n, grain, [](void* context, int64_t begin, int64_t end) { (*static_cast<B*>(context))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace rapt
