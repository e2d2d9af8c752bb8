#include <kernels/cpu/vector.hpp>
#include <kernels/cpu/vector_layout.hpp>
#include <kernels/cpu/vector_targets.hpp>
#include <rapt/base/threads.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_additive.cpp"
// clang-format off
#include <hwy/foreach_target.h>  // compiles this file once a target
#include <hwy/highway.h>
#include <kernels/cpu/vector_lanes-inl.hpp>
#include <kernels/cpu/vector_math-inl.hpp>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::vector::HWY_NAMESPACE {

template <class T>
T* row_at(const Tensor& t, int64_t b, int64_t position) {
  return t.data<T>() + b * t.stride(0) + position * t.stride(1);
}

/// Rows [begin, end) of the B Tq queries. Features beyond the end have v = 0.
template <class T>
void score_rows(const AdditiveScores& op, int64_t begin, int64_t end) {
  const F32 d;
  const int64_t queries = op.q.size(1), keys = op.k.size(1);
  const float* v = op.v.data<float>();
  for (int64_t row = begin; row < end; ++row) {
    const int64_t b = row / queries, t = row % queries;
    const T* q = row_at<T>(op.q, b, t);
    T* e = row_at<T>(op.e, b, t);
    for (int64_t j = 0; j < keys; ++j) {
      const T* k = row_at<T>(op.k, b, j);
      e[j] = T(fold_sum(size_t(op.q.size(2)), [&](VF sum, size_t a, auto extent) HWY_ATTR {
        const VF y = tanh(d, hn::Add(load(d, q + a, extent), load(d, k + a, extent)));
        return hn::MulAdd(load(d, v + a, extent), y, sum);
      }));
    }
  }
}

/// One batch entry. With y = tanh(q + k): dq_ta = sum_j de_tj v_a (1 - y^2), dk_ja the same sum over t; adds
/// sum_tj de_tj y to dv.
template <class T>
void score_gradients(const AdditiveScoresBackward& op, int64_t b, float* dv) {
  const F32 d;
  const VF one = hn::Set(d, 1.0f);
  const int64_t queries = op.q.size(1), keys = op.k.size(1), A = op.q.size(2);
  const float* v = op.v.data<float>();
  const Tensor sums = Tensor::zeros({keys + 1, A});
  float *dk = sums.data<float>(), *dq = dk + keys * A;
  for (int64_t t = 0; t < queries; ++t) {
    const T *q = row_at<T>(op.q, b, t), *de = row_at<T>(op.de, b, t);
    std::fill(dq, dq + A, 0.0f);
    for (int64_t j = 0; j < keys; ++j) {
      const T* k = row_at<T>(op.k, b, j);
      float* dk_row = dk + j * A;
      const VF upstream = hn::Set(d, float(de[j]));
      for_lanes(size_t(A), [&](size_t a, auto extent) HWY_ATTR {
        const VF y = tanh(d, hn::Add(load(d, q + a, extent), load(d, k + a, extent)));
        const VF dx = hn::Mul(hn::Mul(upstream, load(d, v + a, extent)), hn::NegMulAdd(y, y, one));
        store(hn::Add(load(d, dq + a, extent), dx), d, dq + a, extent);
        store(hn::Add(load(d, dk_row + a, extent), dx), d, dk_row + a, extent);
        store(hn::MulAdd(upstream, y, load(d, dv + a, extent)), d, dv + a, extent);
      });
    }
    if (op.dq) copy_row(dq, size_t(A), row_at<T>(op.dq, b, t), op.accumulate_dq);
  }
  if (op.dk)
    for (int64_t j = 0; j < keys; ++j) copy_row(dk + j * A, size_t(A), row_at<T>(op.dk, b, j), op.accumulate_dk);
}

void scores(const AdditiveScores& op, int64_t begin, int64_t end) {
  with_type(op.q.dtype(), [&](auto type) HWY_ATTR { score_rows<decltype(type)>(op, begin, end); });
}
void scores_backward(const AdditiveScoresBackward& op, int64_t b, float* dv) {
  with_type(op.q.dtype(), [&](auto type) HWY_ATTR { score_gradients<decltype(type)>(op, b, dv); });
}

}  // namespace rapt::kernels::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt::kernels::vector {
namespace {

HWY_EXPORT(scores);
HWY_EXPORT(scores_backward);

template <class... Tensors>
bool have_unit_features(const Tensors&... t) {
  return ((!t.defined() || t.stride(-1) == 1 || t.size(-1) == 1) && ...);
}

}  // namespace

bool supports(const AdditiveScores& op) {
  return have_vector_dtype(op.q) && all_are(op.q.dtype(), op.k, op.e) && all_are(DType::f32, op.v) &&
         have_unit_features(op.q, op.k, op.v, op.e);
}
bool supports(const AdditiveScoresBackward& op) {
  return have_vector_dtype(op.q) && all_are(op.q.dtype(), op.k, op.de, op.dq, op.dk) &&
         all_are(DType::f32, op.v, op.dv) && have_unit_features(op.q, op.k, op.v, op.de, op.dq, op.dk, op.dv);
}

void run(const AdditiveScores& op) {
  parallel_for(op.q.size(0) * op.q.size(1), row_grain(4 * op.k.size(1) * op.q.size(2)), [&](int64_t b, int64_t e) {
    HWY_DYNAMIC_DISPATCH(scores)(op, b, e);
  });
}

/// dv is gathered a batch entry at a time, then added in order.
void run(const AdditiveScoresBackward& op) {
  const int64_t B = op.q.size(0), A = op.q.size(2);
  const Tensor partial = Tensor::zeros({B, A});
  float* sums = partial.data<float>();
  parallel_for(B, row_grain(4 * op.q.size(1) * op.k.size(1) * A), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) HWY_DYNAMIC_DISPATCH(scores_backward)(op, b, sums + b * A);
  });
  if (!op.dv) return;
  float* dv = op.dv.data<float>();
  for (int64_t a = 0; a < A; ++a) {
    float sum = op.accumulate_dv ? dv[a] : 0;
    for (int64_t b = 0; b < B; ++b) sum += sums[b * A + a];
    dv[a] = sum;
  }
}

}  // namespace rapt::kernels::vector
#endif
