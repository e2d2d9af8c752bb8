#include <base/fail.hpp>
#include <kernels/reference/access.hpp>
#include <kernels/reference/reference.hpp>
#include <rapt/base/threads.hpp>
#include <tensor/visit.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace rapt::kernels::reference {
namespace {

/// x[b, t, head, d] of any strides.
template <class T>
struct Heads {
  T* data;
  int64_t batch, position, head, feature;
  explicit Heads(const Tensor& x)
      : data(x.data<T>()), batch(x.stride(0)), position(x.stride(1)), head(x.stride(2)), feature(x.stride(3)) {}
  T& at(int64_t b, int64_t t, int64_t h, int64_t d) const {
    return data[b * batch + t * position + h * head + d * feature];
  }
};

/// Sizes, mask and dropout, which both passes read in the same way.
struct Problem {
  int64_t batch, query_length, key_length, heads, key_heads, d_k, d_v;
  const int32_t* lengths;
  const float* slopes;
  bool causal;
  double scale, keep_scale;
  uint32_t drop_below;
  Philox random;

  template <class Args>
  explicit Problem(const Args& a)
      : batch(a.q.size(0)),
        query_length(a.q.size(1)),
        key_length(a.k.size(1)),
        heads(a.q.size(2)),
        key_heads(a.k.size(2)),
        d_k(a.q.size(3)),
        d_v(a.v.size(3)),
        lengths(a.mask.lengths ? a.mask.lengths.template data<int32_t>() : nullptr),
        slopes(a.mask.slopes ? a.mask.slopes.template data<float>() : nullptr),
        causal(a.mask.causal),
        scale(a.scale),
        keep_scale(1.0 / (1.0 - double(a.p))),
        drop_below(uint32_t(std::lround(65536.0 * double(a.p)))),
        random(a.random) {}

  int64_t group() const { return heads / key_heads; }
  /// Keys 0 .. visible - 1 are those that query i may look at.
  int64_t visible(int64_t b, int64_t i) const {
    const int64_t keys = lengths ? lengths[b] : key_length;
    return causal ? std::clamp<int64_t>(i + key_length - query_length + 1, 0, keys) : keys;
  }
  double bias(int64_t head, int64_t i, int64_t j) const {
    return slopes ? -double(slopes[head]) * std::abs(double(i + key_length - query_length - j)) : 0.0;
  }
  /// mask / (1 - p)
  double dropout(int64_t b, int64_t head, int64_t i, int64_t j) const {
    if (drop_below == 0) return 1.0;
    const auto n = uint64_t(((b * heads + head) * query_length + i) * key_length + j);
    return random.bits16(n) >= drop_below ? keep_scale : 0.0;
  }
};

/// s_j = scale q_i . k_j + bias
template <class T>
void scores(const Problem& p, const Heads<T>& q, const Heads<T>& k, int64_t b, int64_t head, int64_t i,
            std::vector<double>& s) {
  const int64_t visible = p.visible(b, i);
  for (int64_t j = 0; j < visible; ++j) {
    double dot = 0;
    for (int64_t d = 0; d < p.d_k; ++d)
      dot += to_double(q.at(b, i, head, d)) * to_double(k.at(b, j, head / p.group(), d));
    s[size_t(j)] = p.scale * dot + p.bias(head, i, j);
  }
}

/// Turns the first n scores into weights; returns their log sum exp.
double softmax(std::vector<double>& s, int64_t n) {
  if (n == 0) return -std::numeric_limits<double>::infinity();
  const double highest = *std::max_element(s.begin(), s.begin() + n);
  double sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += s[size_t(j)] = std::exp(s[size_t(j)] - highest);
  for (int64_t j = 0; j < n; ++j) s[size_t(j)] /= sum;
  return highest + std::log(sum);
}

template <class T, class Stat>
void forward(const AttentionForward& a) {
  const Problem p(a);
  const Heads<T> q(a.q), k(a.k), v(a.v), o(a.o);
  Stat* lse = a.lse.data<Stat>();
  Stat* weights = a.weights ? a.weights.data<Stat>() : nullptr;
  parallel_for(p.batch * p.heads * p.query_length, 16, [&](int64_t begin, int64_t end) {
    std::vector<double> w(static_cast<size_t>(p.key_length));
    for (int64_t row = begin; row < end; ++row) {
      const int64_t i = row % p.query_length, head = row / p.query_length % p.heads;
      const int64_t b = row / p.query_length / p.heads, visible = p.visible(b, i);
      scores(p, q, k, b, head, i, w);
      lse[row] = Stat(softmax(w, visible));
      if (weights)
        for (int64_t j = 0; j < p.key_length; ++j)
          weights[row * p.key_length + j] = j < visible ? Stat(w[size_t(j)]) : Stat(0);
      for (int64_t j = 0; j < visible; ++j) w[size_t(j)] *= p.dropout(b, head, i, j);
      for (int64_t d = 0; d < p.d_v; ++d) {
        double sum = 0;
        for (int64_t j = 0; j < visible; ++j) sum += w[size_t(j)] * to_double(v.at(b, j, head / p.group(), d));
        o.at(b, i, head, d) = convert<T>(sum);
      }
    }
  });
}

template <class T>
void store(T& to, double value, bool accumulate) {
  to = convert<T>(accumulate ? to_double(to) + value : value);
}

/// All gradients that one key head takes part in: the queries of its group, its keys and its values.
template <class T, class Stat>
void backward_of_key_head(const AttentionBackward& a, const Problem& p, int64_t b, int64_t g) {
  const Heads<T> q(a.q), k(a.k), v(a.v), o(a.o), d_o(a.d_o), dq(a.dq), dk(a.dk), dv(a.dv);
  const Stat* lse = a.lse.data<Stat>();
  std::vector<double> w(size_t(p.key_length)), key_sum(size_t(p.key_length * p.d_k)),
      value_sum(size_t(p.key_length * p.d_v)), query_sum(static_cast<size_t>(p.d_k));
  for (int64_t head = g * p.group(); head < (g + 1) * p.group(); ++head)
    for (int64_t i = 0; i < p.query_length; ++i) {
      const int64_t visible = p.visible(b, i);
      scores(p, q, k, b, head, i, w);
      double delta = 0;  // rowsum(do * o)
      for (int64_t d = 0; d < p.d_v; ++d) delta += to_double(d_o.at(b, i, head, d)) * to_double(o.at(b, i, head, d));
      std::fill(query_sum.begin(), query_sum.end(), 0.0);
      for (int64_t j = 0; j < visible; ++j) {
        const double weight = std::exp(w[size_t(j)] - double(lse[(b * p.heads + head) * p.query_length + i]));
        const double keep = p.dropout(b, head, i, j);
        double dw = 0;  // do V^T
        for (int64_t d = 0; d < p.d_v; ++d) {
          const double upstream = to_double(d_o.at(b, i, head, d));
          dw += upstream * to_double(v.at(b, j, g, d));
          value_sum[size_t(j * p.d_v + d)] += weight * keep * upstream;
        }
        const double ds = p.scale * weight * (keep * dw - delta);
        for (int64_t d = 0; d < p.d_k; ++d) {
          query_sum[size_t(d)] += ds * to_double(k.at(b, j, g, d));
          key_sum[size_t(j * p.d_k + d)] += ds * to_double(q.at(b, i, head, d));
        }
      }
      for (int64_t d = 0; d < p.d_k; ++d) store(dq.at(b, i, head, d), query_sum[size_t(d)], a.accumulate_dq);
    }
  for (int64_t j = 0; j < p.key_length; ++j) {
    for (int64_t d = 0; d < p.d_k; ++d) store(dk.at(b, j, g, d), key_sum[size_t(j * p.d_k + d)], a.accumulate_dk);
    for (int64_t d = 0; d < p.d_v; ++d) store(dv.at(b, j, g, d), value_sum[size_t(j * p.d_v + d)], a.accumulate_dv);
  }
}

}  // namespace

void run(const AttentionForward& a) {
  visit_with_wide(a.q.dtype(), a.op, [&](auto element, auto statistic) {
    forward<typename decltype(element)::type, typename decltype(statistic)::type>(a);
  });
}

void run(const AttentionBackward& a) {
  visit_with_wide(a.q.dtype(), a.op, [&](auto element, auto statistic) {
    const Problem p(a);
    parallel_for(p.batch * p.key_heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task)
        backward_of_key_head<typename decltype(element)::type, typename decltype(statistic)::type>(
            a, p, task / p.key_heads, task % p.key_heads);
    });
  });
}

}  // namespace rapt::kernels::reference
