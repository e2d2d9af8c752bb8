#include <base/fail.hpp>
#include <kernels/reference/access.hpp>
#include <kernels/reference/reference.hpp>
#include <rapt/base/threads.hpp>
#include <tensor/visit.hpp>

#include <cmath>
#include <vector>

namespace rapt::kernels::reference {
namespace {

/// x[b, t, a] of any strides.
template <class T>
struct Rows {
  T* data;
  int64_t batch, position, feature;
  explicit Rows(const Tensor& x) : data(x.data<T>()), batch(x.stride(0)), position(x.stride(1)), feature(x.stride(2)) {}
  T& at(int64_t b, int64_t t, int64_t a) const { return data[b * batch + t * position + a * feature]; }
};

template <class T, class Weight>
void forward(const AdditiveScores& s) {
  const Rows<T> q(s.q), k(s.k), e(s.e);
  const Weight* v = s.v.data<Weight>();
  const int64_t queries = s.q.size(1), keys = s.k.size(1), width = s.q.size(2), step = s.v.stride(0);
  parallel_for(s.q.size(0) * queries, 4, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t b = row / queries, t = row % queries, j = 0; j < keys; ++j) {
        double sum = 0;
        for (int64_t a = 0; a < width; ++a)
          sum += double(v[a * step]) * std::tanh(to_double(q.at(b, t, a)) + to_double(k.at(b, j, a)));
        e.at(b, t, j) = convert<T>(sum);
      }
  });
}

template <class T>
void store(T& to, double value, bool accumulate) {
  to = convert<T>(accumulate ? to_double(to) + value : value);
}

/// With y = tanh(q + k): dq_ta = sum_j de_tj v_a (1 - y^2), dk_ja the same sum over t, dv_a = sum_tj de_tj y.
/// Returns this batch entry's share of dv.
template <class T, class Weight>
std::vector<double> backward_of_batch(const AdditiveScoresBackward& s, int64_t b) {
  const Rows<T> q(s.q), k(s.k), de(s.de);
  const Weight* v = s.v.data<Weight>();
  const int64_t queries = s.q.size(1), keys = s.k.size(1), width = s.q.size(2), step = s.v.stride(0);
  std::vector<double> q_sum(size_t(queries * width)), k_sum(size_t(keys * width)), v_sum(static_cast<size_t>(width));
  for (int64_t t = 0; t < queries; ++t)
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t a = 0; a < width; ++a) {
        const double y = std::tanh(to_double(q.at(b, t, a)) + to_double(k.at(b, j, a)));
        const double upstream = to_double(de.at(b, t, j)), dx = upstream * double(v[a * step]) * (1 - y * y);
        q_sum[size_t(t * width + a)] += dx;
        k_sum[size_t(j * width + a)] += dx;
        v_sum[size_t(a)] += upstream * y;
      }
  const auto write = [&](const Tensor& to, const std::vector<double>& sum, int64_t length, bool accumulate) {
    if (!to) return;
    const Rows<T> rows(to);
    for (int64_t t = 0; t < length; ++t)
      for (int64_t a = 0; a < width; ++a) store(rows.at(b, t, a), sum[size_t(t * width + a)], accumulate);
  };
  write(s.dq, q_sum, queries, s.accumulate_dq);
  write(s.dk, k_sum, keys, s.accumulate_dk);
  return v_sum;
}

template <class T, class Weight>
void backward(const AdditiveScoresBackward& s) {
  const int64_t batch = s.q.size(0), width = s.q.size(2);
  std::vector<std::vector<double>> shares(static_cast<size_t>(batch));
  parallel_for(batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) shares[size_t(b)] = backward_of_batch<T, Weight>(s, b);
  });
  if (!s.dv) return;
  for (int64_t a = 0; a < width; ++a) {
    double sum = 0;
    for (const auto& share : shares) sum += share[size_t(a)];
    store(s.dv.data<Weight>()[a * s.dv.stride(0)], sum, s.accumulate_dv);
  }
}

}  // namespace

void run(const AdditiveScores& s) {
  visit_with_wide(s.q.dtype(), s.op, [&](auto element, auto weight) {
    forward<typename decltype(element)::type, typename decltype(weight)::type>(s);
  });
}

void run(const AdditiveScoresBackward& s) {
  visit_with_wide(s.q.dtype(), s.op, [&](auto element, auto weight) {
    backward<typename decltype(element)::type, typename decltype(weight)::type>(s);
  });
}

}  // namespace rapt::kernels::reference
