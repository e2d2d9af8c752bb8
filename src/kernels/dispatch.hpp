#pragma once
// How launch() finds an implementation; included by register.cpp alone.

#include <base/fail.hpp>
#include <kernels/kernels.hpp>

#include <atomic>
#include <chrono>

namespace rapt::kernels::detail {

/// The forced implementation of one operation ("" for none), and a count that grows with every change.
std::string forced_name(const char* op);
extern std::atomic<uint64_t> forced_generation;

extern std::atomic<bool> profiling;
void add_to_profile(const char* op, const char* implementation, double seconds, double flops);

template <class Args>
double flops(const Args&) {
  return 0;
}
inline double flops(const Gemm& g) { return 2.0 * double(g.c.numel()) * double(g.a.size(-1)); }
inline double attention_flops(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  const double pairs = double(q.size(0)) * double(q.size(2)) * double(q.size(1)) * double(k.size(1));
  return 2.0 * pairs * double(q.size(3) + v.size(3)) * (causal ? 0.5 : 1.0);
}
inline double flops(const AttentionForward& a) { return attention_flops(a.q, a.k, a.v, a.mask.causal); }
inline double flops(const AttentionBackward& a) { return 2.5 * attention_flops(a.q, a.k, a.v, a.mask.causal); }

/// The forced implementation as a pointer, looked up again only when something was forced or released.
template <class Args>
const Implementation<Args>* forced() {
  struct Cache {
    std::atomic<uint64_t> generation{~uint64_t(0)};
    std::atomic<const Implementation<Args>*> implementation{nullptr};
  };
  static Cache cache;
  const uint64_t now = forced_generation.load(std::memory_order_acquire);
  if (cache.generation.load(std::memory_order_acquire) != now) {
    const std::string name = forced_name(Args::op);
    const Implementation<Args>* found = nullptr;
    for (const auto& candidate : implementations<Args>())
      if (name == candidate.name) found = &candidate;
    cache.implementation = found;
    cache.generation.store(now, std::memory_order_release);
  }
  return cache.implementation.load(std::memory_order_acquire);
}

template <class Args>
const Implementation<Args>& choose(const Args& args) {
  if (const auto* wanted = forced<Args>(); wanted && wanted->supports(args)) return *wanted;
  for (const auto& candidate : implementations<Args>())
    if (candidate.available() && candidate.supports(args)) return candidate;
  fail<KernelError>("[{}] no implementation takes these arguments on this machine", Args::op);
}

template <class Args>
void timed_launch(const Args& args) {
  const auto& implementation = choose(args);
  if (!profiling.load(std::memory_order_relaxed)) return implementation.run(args);
  const auto begin = std::chrono::steady_clock::now();
  implementation.run(args);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  add_to_profile(Args::op, implementation.name, took.count(), flops(args));
}

}  // namespace rapt::kernels::detail
