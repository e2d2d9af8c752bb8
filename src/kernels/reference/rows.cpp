#include <kernels/reference/access.hpp>
#include <kernels/reference/reference.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace rapt::kernels::reference {
namespace {

/// log sum exp of the first n values.
double log_sum_exp(const Row& x, size_t n) {
  const double top = *std::max_element(x.begin(), x.begin() + int64_t(n));
  double sum = 0;
  for (size_t j = 0; j < n; ++j) sum += std::exp(x[j] - top);
  return top + std::log(sum);
}

}  // namespace

void run(const EmbeddingForward& op) {
  const int32_t* ids = integers(op.ids);
  for (int64_t n = 0; n < op.y.size(0); ++n) {
    Row y = read_row(op.weight, ids[n]);
    for (double& v : y) v *= op.scale;
    if (op.positions) {
      const Row p = read_row(op.positions, op.position_offset + n % op.length);
      for (size_t d = 0; d < y.size(); ++d) y[d] += p[d];
    }
    write_row(op.y, n, y);
  }
}

void run(const EmbeddingBackward& op) {
  const int32_t* ids = integers(op.ids);
  const int64_t D = op.dweight.size(1);
  Row sums(size_t(op.dweight.numel()));
  for (int64_t n = 0; n < op.dy.size(0); ++n) {
    const Row dy = read_row(op.dy, n);
    for (int64_t d = 0; d < D; ++d) sums[size_t(ids[n] * D + d)] += op.scale * dy[size_t(d)];
  }
  write_all(op.dweight, sums, op.accumulate);
}

void run(const GatherRows& op) {
  const int32_t* ids = integers(op.ids);
  for (int64_t n = 0; n < op.y.size(0); ++n) write_row(op.y, n, read_row(op.x, ids[n]));
}

void run(const SoftmaxForward& op) {
  const int32_t* lengths = integers(op.lengths);
  const int64_t D = op.x.size(1);
  Row x(static_cast<size_t>(D));
  for (int64_t n = 0; n < op.x.size(0); ++n) {
    const auto length = size_t(lengths ? std::min<int64_t>(D, lengths[n / op.repeat]) : D);
    std::fill(x.begin(), x.end(), 0.0);
    if (length > 0) {
      load(op.x, n * op.x.stride(0), op.x.stride(1), int64_t(length), x.data());
      const double lse = log_sum_exp(x, length);
      for (size_t j = 0; j < length; ++j) x[j] = op.log ? x[j] - lse : std::exp(x[j] - lse);
    }
    write_row(op.y, n, x);
  }
}

void run(const SoftmaxBackward& op) {
  for (int64_t n = 0; n < op.y.size(0); ++n) {
    const Row y = read_row(op.y, n);
    Row dy = read_row(op.dy, n);
    if (op.log) {
      const double total = std::accumulate(dy.begin(), dy.end(), 0.0);
      for (size_t j = 0; j < y.size(); ++j) dy[j] -= std::exp(y[j]) * total;
    } else {
      const double mean = std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
      for (size_t j = 0; j < y.size(); ++j) dy[j] = y[j] * (dy[j] - mean);
    }
    write_row(op.dx, n, dy, op.accumulate);
  }
}

void run(const CrossEntropy& op) {
  const int32_t* targets = integers(op.targets);
  const auto V = size_t(op.logits.size(1));
  Row loss(size_t(op.logits.size(0))), hits(loss.size());
  for (size_t n = 0; n < loss.size(); ++n) {
    Row z = read_row(op.logits, int64_t(n));
    if (targets[n] == op.ignore) {
      std::fill(z.begin(), z.end(), 0.0);
    } else {
      const auto target = size_t(targets[n]);
      const double lse = log_sum_exp(z, V), mean = std::accumulate(z.begin(), z.end(), 0.0) / double(V);
      loss[n] = (1 - op.smoothing) * (lse - z[target]) + op.smoothing * (lse - mean);
      hits[n] = std::max_element(z.begin(), z.end()) == z.begin() + int64_t(target);
      for (double& v : z) v = op.scale * (std::exp(v - lse) - op.smoothing / double(V));
      z[target] -= op.scale * (1 - op.smoothing);
    }
    if (op.dlogits) write_row(op.dlogits, int64_t(n), z);
  }
  write_all(op.loss, loss);
  if (op.hits) write_all(op.hits, hits);
}

}  // namespace rapt::kernels::reference
