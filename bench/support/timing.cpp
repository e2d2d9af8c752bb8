#include <support/timing.hpp>

#include <algorithm>
#include <chrono>
#include <numeric>

namespace rapt::bench {

std::vector<Timing> time_in_turns(const std::vector<std::function<void()>>& calls, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  for (const auto& call : calls) call();
  std::vector<std::vector<double>> times(calls.size());
  const auto begin = Clock::now();
  while (times[0].size() < 3 || since(begin) < seconds)
    for (size_t i = 0; i < calls.size(); ++i) {
      const auto start = Clock::now();
      calls[i]();
      times[i].push_back(since(start));
    }
  std::vector<Timing> result;
  for (auto& t : times) {
    std::sort(t.begin(), t.end());
    const double mean = std::accumulate(t.begin(), t.end(), 0.0) / double(t.size());
    result.push_back({t.front(), t[t.size() / 2], mean, int(t.size())});
  }
  return result;
}

Timing time_calls(const std::function<void()>& call, double seconds) { return time_in_turns({call}, seconds)[0]; }

}  // namespace rapt::bench
