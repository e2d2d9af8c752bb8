#include <rapt/base/error.hpp>
#include <rapt/base/threads.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace rapt {
namespace {

/// Runs a test with a number of threads and puts the old one back.
class WithThreads {
 public:
  explicit WithThreads(int n) : before_(thread_count()) { set_thread_count(n); }
  ~WithThreads() { set_thread_count(before_); }
  WithThreads(const WithThreads&) = delete;
  WithThreads& operator=(const WithThreads&) = delete;

 private:
  int before_;
};

class Threads : public testing::TestWithParam<int> {
 protected:
  WithThreads threads_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Counts, Threads, testing::Values(1, 2, 3, 8));

TEST_P(Threads, EveryIndexIsVisitedOnce) {
  for (const int64_t n : {1, 2, 7, 64, 1000, 4097})
    for (const int64_t grain : {1, 3, 64, 5000}) {
      std::vector<int> visits(size_t(n), 0);
      parallel_for(n, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++visits[size_t(i)];
      });
      EXPECT_EQ(visits, std::vector<int>(size_t(n), 1)) << "n " << n << ", grain " << grain;
    }
}

TEST_P(Threads, NothingToDoCallsNothing) {
  bool called = false;
  parallel_for(0, 1, [&](int64_t, int64_t) { called = true; });
  parallel_for(-3, 1, [&](int64_t, int64_t) { called = true; });
  EXPECT_FALSE(called);
}

TEST_P(Threads, AnExceptionReachesTheCallerAndThePoolLivesOn) {
  auto fail_at_500 = [](int64_t begin, int64_t end) {
    if (begin <= 500 && 500 < end) throw std::runtime_error("at 500");
  };
  EXPECT_THROW(parallel_for(1000, 10, fail_at_500), std::runtime_error);
  std::atomic<int64_t> sum{0};
  parallel_for(1000, 10, [&](int64_t begin, int64_t end) { sum += end - begin; });
  EXPECT_EQ(sum, 1000);
}

TEST_P(Threads, NestedCallsRunInPlace) {
  std::vector<int> visits(40 * 50, 0);
  parallel_for(40, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto caller = std::this_thread::get_id();
      parallel_for(50, 1, [&](int64_t from, int64_t to) {
        EXPECT_EQ(std::this_thread::get_id(), caller);
        for (int64_t j = from; j < to; ++j) ++visits[size_t(i * 50 + j)];
      });
    }
  });
  EXPECT_EQ(visits, std::vector<int>(visits.size(), 1));
}

TEST_P(Threads, WritesAreSeenAfterTheCall) {
  std::vector<int64_t> values(10'000);
  for (int64_t round = 0; round < 100; ++round) {
    parallel_for(int64_t(values.size()), 128, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) values[size_t(i)] = round;
    });
    ASSERT_EQ(std::accumulate(values.begin(), values.end(), int64_t(0)), round * int64_t(values.size()));
  }
}

TEST_P(Threads, SeveralCallersShareThePool) {
  std::atomic<int64_t> sum{0};
  auto call = [&] {
    for (int round = 0; round < 50; ++round)
      parallel_for(1000, 7, [&](int64_t begin, int64_t end) { sum += end - begin; });
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back(call);
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 50 * 1000);
}

TEST(ThreadCount, IsAtLeastOneAndCanBeSet) {
  EXPECT_GE(thread_count(), 1);
  const WithThreads three(3);
  EXPECT_EQ(thread_count(), 3);
  EXPECT_THROW(set_thread_count(0), ConfigError);
  EXPECT_EQ(thread_count(), 3);
}

}  // namespace
}  // namespace rapt
