#include <rapt/autograd/tape.hpp>

#include <algorithm>
#include <cstring>

namespace rapt {

bool disjoint(const Region& a, const Region& b) {
  return a.period == b.period && a.period > 1 && (a.end <= b.begin || b.end <= a.begin);
}

GradTarget GradSlot::claim(const Geometry& view, const Region& region) {
  if (!buffer) buffer = Tensor::empty(shape, dtype, device);
  const Tensor target = buffer.seen_as(view, base_offset);
  const bool fresh = written_.empty();
  if (fresh && region.period != 0) {
    written_ = {region};
    return {target, false};
  }
  if (!fresh && written_.front().whole()) return {target, true};
  // Parts have been written before this one: the thirds of a fused QKV projection, say.
  if (!fresh && region.period == written_.front().period) {
    if (std::find(written_.begin(), written_.end(), region) != written_.end()) return {target, true};
    if (std::all_of(written_.begin(), written_.end(), [&](const Region& r) { return disjoint(r, region); })) {
      written_.push_back(region);
      return {target, false};
    }
  }
  complete();
  return {target, true};
}

bool GradSlot::adopt(const Tensor& grad) {
  if (pinned || written() || grad.dtype() != dtype || !(grad.shape() == shape) || !grad.is_contiguous()) return false;
  buffer = grad;
  written_ = {Region{}};
  return true;
}

void GradSlot::complete() {
  if (!buffer) buffer = Tensor::empty(shape, dtype, device);
  if (written_.empty() || !written_.front().whole()) zero_gaps();
  written_ = {Region{}};
}

void GradSlot::zero_gaps() {
  const size_t element = size_of(dtype);
  if (written_.empty()) {
    std::memset(buffer.raw(), 0, size_t(buffer.numel()) * element);
    return;
  }
  std::sort(written_.begin(), written_.end(), [](const Region& a, const Region& b) { return a.begin < b.begin; });
  const int64_t period = written_.front().period;
  for (int64_t row = 0; row < buffer.numel(); row += period) {
    int64_t at = 0;
    for (size_t i = 0; i <= written_.size(); ++i) {
      const int64_t next = i < written_.size() ? written_[i].begin : period;
      if (next > at) std::memset(buffer.raw() + size_t(row + at) * element, 0, size_t(next - at) * element);
      if (i < written_.size()) at = written_[i].end;
    }
  }
}

void GradSlot::clear() {
  written_.clear();
  if (!pinned) buffer = {};
}

}  // namespace rapt
