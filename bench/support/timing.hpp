#pragma once
#include <functional>
#include <vector>

namespace rapt::bench {

/// Seconds of one call: the best, which other work on the machine disturbs least, the median and the mean.
struct Timing {
  double best = 0, median = 0, mean = 0;
  int repetitions = 0;
};

/// Calls each in turn, over and over, for about `seconds` in all (at least three times each after a call to warm up).
/// Turns are taken so that what disturbs one disturbs the others alike: ratios stay fair on a busy machine.
std::vector<Timing> time_in_turns(const std::vector<std::function<void()>>& calls, double seconds = 0.5);

Timing time_calls(const std::function<void()>& call, double seconds = 0.5);

}  // namespace rapt::bench
