#include <kernels/cpu/vector.hpp>
#include <kernels/cpu/vector_layout.hpp>
#include <kernels/cpu/vector_targets.hpp>
#include <rapt/base/threads.hpp>

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_embedding.cpp"
// clang-format off
#include <hwy/foreach_target.h>  // compiles this file once a target
#include <hwy/highway.h>
#include <kernels/cpu/vector_lanes-inl.hpp>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::vector::HWY_NAMESPACE {

template <class T>
void embedding_rows(const EmbeddingForward& op, int64_t begin, int64_t end) {
  const F32 d;
  const auto D = size_t(op.y.size(1));
  const VF scale = hn::Set(d, float(op.scale));
  const int32_t* ids = op.ids.data<int32_t>();
  const bool streamed = streams_rows(op.y);
  for (int64_t n = begin; n < end; ++n) {
    const float* w = op.weight.data<float>() + ids[n] * op.weight.stride(0);
    T* y = op.y.data<T>() + n * op.y.stride(0);
    if (op.positions) {
      const int64_t position = op.position_offset + n % op.length;
      const float* p = op.positions.data<float>() + position * op.positions.stride(0);
      for_lanes(D, streamed, [&](size_t i, auto extent) HWY_ATTR {
        store(hn::MulAdd(load(d, w + i, extent), scale, load(d, p + i, extent)), d, y + i, extent);
      });
    } else {
      for_lanes(D, streamed, [&](size_t i, auto extent) HWY_ATTR {
        store(hn::Mul(load(d, w + i, extent), scale), d, y + i, extent);
      });
    }
  }
  if (streamed) hwy::FlushStream();
}

/// Columns [begin, end) of all rows, in the order of the rows: equal ids meet in the same order on any number of threads.
template <class T>
void embedding_columns(const EmbeddingBackward& op, int64_t begin, int64_t end) {
  const F32 d;
  const VF scale = hn::Set(d, float(op.scale));
  const int32_t* ids = op.ids.data<int32_t>();
  const int64_t N = op.dy.size(0), dy_stride = op.dy.stride(0), dw_stride = op.dweight.stride(0);
  const T* first_dy = op.dy.data<T>() + begin;
  float* first_dw = op.dweight.data<float>() + begin;
  for (int64_t n = 0; n < N; ++n) {
    const T* dy = first_dy + n * dy_stride;
    float* dw = first_dw + ids[n] * dw_stride;
    for_lanes(size_t(end - begin), [&](size_t i, auto extent) HWY_ATTR {
      store(hn::MulAdd(load(d, dy + i, extent), scale, load(d, dw + i, extent)), d, dw + i, extent);
    });
  }
}

void embedding_forward(const EmbeddingForward& op, int64_t begin, int64_t end) {
  with_type(op.y.dtype(), [&](auto type) HWY_ATTR { embedding_rows<decltype(type)>(op, begin, end); });
}
void embedding_backward(const EmbeddingBackward& op, int64_t begin, int64_t end) {
  with_type(op.dy.dtype(), [&](auto type) HWY_ATTR { embedding_columns<decltype(type)>(op, begin, end); });
}

}  // namespace rapt::kernels::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt::kernels::vector {
namespace {

HWY_EXPORT(embedding_forward);
HWY_EXPORT(embedding_backward);

}  // namespace

bool supports(const EmbeddingForward& op) {
  return have_vector_dtype(op.y) && all_are(DType::f32, op.weight, op.positions) &&
         have_unit_rows(op.weight, op.positions, op.y);
}
bool supports(const EmbeddingBackward& op) {
  return have_vector_dtype(op.dy, op.dweight) && have_unit_rows(op.dy, op.dweight);
}
bool supports(const GatherRows& op) { return all_are(op.x.dtype(), op.y) && have_unit_rows(op.x, op.y); }

void run(const EmbeddingForward& op) {
  parallel_for(op.y.size(0), row_grain(op.y.size(1)), [&](int64_t b, int64_t e) {
    HWY_DYNAMIC_DISPATCH(embedding_forward)(op, b, e);
  });
}

void run(const EmbeddingBackward& op) {
  // Sums are kept in f32; a bf16 result is rounded once, at the end.
  if (op.dweight.dtype() == DType::bf16) {
    const Tensor sums = Tensor::empty(op.dweight.shape());
    run(EmbeddingBackward{op.ids, op.dy, sums, op.scale, false});
    return run(Affine{sums, op.dweight, 1, 0, op.accumulate});
  }
  const int64_t V = op.dweight.size(0), D = op.dweight.size(1), N = op.dy.size(0);
  if (!op.accumulate)
    parallel_for(V, row_grain(D), [&](int64_t b, int64_t e) {
      for (int64_t v = b; v < e; ++v)
        std::memset(op.dweight.data<float>() + v * op.dweight.stride(0), 0, size_t(D) * sizeof(float));
    });
  // One stretch of columns a thread: in narrow ones memory would be read in crumbs.
  constexpr int64_t kColumns = 128;
  const int64_t stretches = (D + kColumns - 1) / kColumns, share = (stretches + thread_count() - 1) / thread_count();
  parallel_for(stretches, std::max(share, row_grain(N * kColumns)), [&](int64_t b, int64_t e) {
    HWY_DYNAMIC_DISPATCH(embedding_backward)(op, b * kColumns, std::min(D, e * kColumns));
  });
}

/// Bytes are copied, so any dtype is welcome and no vector is needed.
void run(const GatherRows& op) {
  const int64_t D = op.y.size(1);
  const size_t size = size_of(op.x.dtype());
  const int32_t* ids = op.ids.data<int32_t>();
  parallel_for(op.y.size(0), row_grain(D), [&](int64_t b, int64_t e) {
    for (int64_t n = b; n < e; ++n)
      std::memcpy(op.y.raw() + size_t(n * op.y.stride(0)) * size, op.x.raw() + size_t(ids[n] * op.x.stride(0)) * size,
                  size_t(D) * size);
  });
}

}  // namespace rapt::kernels::vector
#endif
