#include <base/fail.hpp>
#include <rapt/train/schedule.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rapt::train {

double Schedule::operator()(int64_t step) const {
  require<ConfigError>(step >= 1, "[schedule] steps are counted from 1, not {}", step);
  const double t = double(step), w = double(std::max<int64_t>(1, warmup));
  const double rise = std::min(1.0, t / w);
  if (kind == Kind::inverse_sqrt) return peak * std::min(t / w, std::sqrt(w / t));
  require<ConfigError>(kind == Kind::constant || total > warmup,
                       "[schedule] ends at step {}, before its warm-up of {} steps", total, warmup);
  if (kind == Kind::constant || step <= warmup) return peak * (warmup > 0 ? rise : 1);
  const double left = std::clamp(1 - (t - double(warmup)) / double(total - warmup), 0.0, 1.0);
  const double share = kind == Kind::linear ? left : 0.5 * (1 - std::cos(std::numbers::pi * left));
  return floor + (peak - floor) * share;
}

Schedule Schedule::of_the_paper(int64_t d_model, int64_t warmup) {
  require<ConfigError>(d_model >= 1 && warmup >= 1,
                       "[schedule] d_model {} and a warm-up of {} steps: both must be at least 1", d_model, warmup);
  Schedule s;
  s.warmup = warmup;
  s.peak = 1 / std::sqrt(double(d_model) * double(warmup));
  return s;
}

}  // namespace rapt::train
