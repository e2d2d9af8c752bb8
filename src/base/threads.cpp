#include <base/fail.hpp>
#include <rapt/base/threads.hpp>

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rapt {
namespace {

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int cores_by_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return int(std::max(1u, std::thread::hardware_concurrency()));
  return std::max(1, CPU_COUNT(&set));
}

/// The quota in one cgroup v2 folder: `cpu.max` holds "quota period", or "max period" for none.
double quota_in(const std::filesystem::path& folder) {
  std::ifstream file(folder / "cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return std::numeric_limits<double>::infinity();
  return quota / period;
}

/// The smallest quota from this process's cgroup up to the root, rounded up: a container with 1.5 cores gets 2 threads.
int cores_by_quota() {
  const std::filesystem::path root = "/sys/fs/cgroup";
  double cores = quota_in(root);
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::/")) continue;
    for (std::filesystem::path group = line.substr(4); !group.empty(); group = group.parent_path())
      cores = std::min(cores, quota_in(root / group));
  }
  return int(std::clamp(std::ceil(cores), 1.0, 1e6));
}

/// One parallel_for in flight. Pieces are claimed with an atomic counter, so whoever runs takes the next one.
struct Job {
  detail::RangeBody body;
  void* context;
  int64_t n, grain;
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> done{0};  // elements finished; n ends the job
  std::mutex error_mutex;
  std::exception_ptr error;

  void work() {
    for (;;) {
      const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= n) return;
      const int64_t end = std::min(n, begin + grain);
      try {
        body(context, begin, end);
      } catch (...) {
        std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
      }
      done.fetch_add(end - begin, std::memory_order_acq_rel);
    }
  }
};

thread_local bool inside_pool = false;

class Pool {
 public:
  explicit Pool(int threads) {
    try {
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
      // The system lets us start no more (a limit on processes): those that run do all the work.
    }
  }
  ~Pool() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
      ++ticket_;
    }
    wake_.notify_all();
    for (auto& worker : workers_) worker.join();
  }
  void run(const std::shared_ptr<Job>& job) {
    {
      std::lock_guard lock(mutex_);
      job_ = job;
      ++ticket_;
    }
    wake_.notify_all();
    inside_pool = true;
    job->work();
    inside_pool = false;
    // The last pieces may still run elsewhere. Spin while they are likely to end soon, then sleep: a neighbour
    // process that holds the core is better off with it.
    for (int i = 0; i < kSpin && job->done.load(std::memory_order_acquire) < job->n; ++i) relax();
    if (job->done.load(std::memory_order_acquire) < job->n) {
      std::unique_lock lock(mutex_);
      finished_.wait(lock, [&] { return job->done.load(std::memory_order_acquire) >= job->n; });
    }
  }

 private:
  /// A few microseconds. With more, a busy neighbour costs more than its share: ./dev bench threads shows it.
  static constexpr int kSpin = 200;

  void serve() {
    inside_pool = true;
    uint64_t seen = 0;
    for (;;) {
      for (int i = 0; i < kSpin && ticket_.load(std::memory_order_acquire) == seen; ++i) relax();
      std::shared_ptr<Job> job;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return ticket_.load(std::memory_order_relaxed) != seen; });
        seen = ticket_.load(std::memory_order_relaxed);
        if (stop_) return;
        job = job_;
      }
      job->work();
      if (job->done.load(std::memory_order_acquire) >= job->n) {
        std::lock_guard lock(mutex_);  // pairs with the check under the lock in run()
        finished_.notify_all();
      }
    }
  }

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_, finished_;
  std::atomic<uint64_t> ticket_{0};
  std::shared_ptr<Job> job_;
  bool stop_ = false;
};

/// One job at a time: callers from several threads queue here, each with the whole pool.
std::mutex pool_mutex;
std::unique_ptr<Pool> pool;
std::atomic<int> wanted_threads{0};

}  // namespace

int thread_count() {
  if (const int n = wanted_threads.load()) return n;
  static const int n = std::min(cores_by_affinity(), cores_by_quota());
  return n;
}

void set_thread_count(int n) {
  require<ConfigError>(n >= 1, "[threads] {} threads asked for: at least 1 is needed", n);
  require<Error>(!inside_pool, "[threads] the number of threads cannot change inside a parallel operation");
  std::lock_guard lock(pool_mutex);
  wanted_threads = n;
  pool.reset();
}

void detail::run_ranges(int64_t n, int64_t grain, RangeBody body, void* context) {
  if (n <= 0) return;
  grain = std::max<int64_t>(1, grain);
  if (n <= grain || inside_pool || thread_count() == 1) return body(context, 0, n);
  std::lock_guard lock(pool_mutex);
  if (!pool) pool = std::make_unique<Pool>(thread_count());
  auto job = std::make_shared<Job>();
  job->body = body;
  job->context = context;
  job->n = n;
  job->grain = grain;
  pool->run(job);
  if (job->error) std::rethrow_exception(job->error);
}

}  // namespace rapt
