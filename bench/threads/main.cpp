// What a busy neighbour costs: the same parallel work alone, and beside a process that never lets go of a core. A pool
// that waits by spinning, or hands out its work in equal shares, loses far more than the neighbour takes.
#include <kernels/kernels.hpp>
#include <rapt/base/error.hpp>
#include <rapt/base/threads.hpp>
#include <support/timing.hpp>

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <vector>

namespace rapt::bench {
namespace {

constexpr double kSeconds = 3;

/// A process that keeps one core busy until it is destroyed.
class BusyNeighbour {
 public:
  BusyNeighbour() : child_(fork()) {
    if (child_ < 0) throw Error("[threads] no second process could be started");
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // whatever ends this program ends the neighbour
      for (volatile unsigned n = 0;;) n = n + 1;
    }
  }
  ~BusyNeighbour() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  BusyNeighbour(const BusyNeighbour&) = delete;
  BusyNeighbour& operator=(const BusyNeighbour&) = delete;

 private:
  pid_t child_;
};

struct Work {
  const char* name;
  std::function<void()> run;
};

std::vector<Work> all_work() {
  const Tensor a = Tensor::full({512, 512}, 0.5), b = Tensor::full({512, 512}, 0.25), c = Tensor::empty({512, 512});
  const Tensor x = Tensor::full({2048, 512}, 0.5), y = Tensor::empty({2048, 512});
  return {{"one matrix product (512 x 512 x 512)",
           [=] {
             kernels::Gemm gemm;
             gemm.a = a;
             gemm.b = b;
             gemm.c = c;
             kernels::launch(gemm);
           }},
          {"a thousand small operations (2048 x 512)", [=] {
             for (int i = 0; i < 1000; ++i) kernels::launch(kernels::UnaryForward{kernels::Unary::relu, x, y});
           }}};
}

void report() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : thread_count();
  const int threads = thread_count();
  // Threads and neighbour share the cores evenly.
  const double share = std::min(1.0, double(cores) / (threads + 1)) * threads / std::min(threads, cores);
  fmt::print("{} threads on {} cores; fair share beside one busy process: {:.0f} %, a slowdown of {:.2f}\n\n", threads,
             cores, 100 * share, 1 / share);
  fmt::print("{:<42} {:>10} {:>14} {:>10}\n", "work", "alone", "with neighbour", "slowdown");
  for (const Work& work : all_work()) {
    const Timing alone = time_calls(work.run, kSeconds);
    const BusyNeighbour neighbour;
    const Timing beside = time_calls(work.run, kSeconds);
    fmt::print("{:<42} {:>7.2f} ms {:>11.2f} ms {:>10.2f}\n", work.name, alone.mean * 1e3, beside.mean * 1e3,
               beside.mean / alone.mean);
  }
}

}  // namespace
}  // namespace rapt::bench

int main(int argc, char** argv) {
  try {
    if (argc == 3 && std::string(argv[1]) == "--threads")
      rapt::set_thread_count(std::atoi(argv[2]));
    else if (argc != 1)
      throw rapt::ConfigError("usage: bench_threads [--threads N]");
    rapt::bench::report();
  } catch (const rapt::ConfigError& error) {
    fmt::print(stderr, "bench_threads: {}\n", error.what());
    return 2;
  } catch (const rapt::Error& error) {
    fmt::print(stderr, "bench_threads: {}\n", error.what());
    return 1;
  }
  return 0;
}
