#include <kernels/cpu/vector.hpp>
#include <kernels/cpu/vector_layout.hpp>
#include <kernels/cpu/vector_targets.hpp>
#include <rapt/base/threads.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_reduce.cpp"
// clang-format off
#include <hwy/foreach_target.h>  // compiles this file once a target
#include <hwy/highway.h>
#include <kernels/cpu/vector_lanes-inl.hpp>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::vector::HWY_NAMESPACE {

/// The sum of n elements from `at` on.
float sum_elements(const Tensor& t, int64_t at, int64_t n) {
  const F32 d;
  float sum = 0;
  with_type(t.dtype(), [&](auto type) HWY_ATTR {
    const auto* x = t.data<decltype(type)>() + at;
    sum = fold_sum(size_t(n),
                   [&](VF total, size_t i, auto extent) HWY_ATTR { return hn::Add(total, load(d, x + i, extent)); });
  });
  return sum;
}

/// to[i] = sum over `rows` rows, `stride` apart, of element i of the row from `at` on. Four rows at a time, so that the
/// running sums pass through the cache a quarter as often.
void sum_rows(const Tensor& t, int64_t at, int64_t stride, int64_t rows, int64_t n, float* to) {
  const F32 d;
  std::fill(to, to + n, 0.0f);
  with_type(t.dtype(), [&](auto type) HWY_ATTR {
    const auto* x = t.data<decltype(type)>() + at;
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4) {
      const auto *a = x + row * stride, *b = a + stride, *c = b + stride, *e = c + stride;
      for_lanes(size_t(n), [&](size_t i, auto extent) HWY_ATTR {
        const VF ab = hn::Add(load(d, a + i, extent), load(d, b + i, extent));
        const VF ce = hn::Add(load(d, c + i, extent), load(d, e + i, extent));
        store(hn::Add(load(d, to + i, extent), hn::Add(ab, ce)), d, to + i, extent);
      });
    }
    for (; row < rows; ++row) copy_row(x + row * stride, size_t(n), to, true);
  });
}

}  // namespace rapt::kernels::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt::kernels::vector {
namespace {

HWY_EXPORT(sum_elements);
HWY_EXPORT(sum_rows);

void put(const Reduce& op, int64_t at, double sum) {
  const auto store = [&]<class T>(T* y) {
    const double value = op.alpha * sum;
    *y = T(float(op.accumulate ? double(float(*y)) + value : value));
  };
  if (op.y.dtype() == DType::f32)
    store(op.y.data<float>() + at);
  else
    store(op.y.data<BFloat16>() + at);
}

/// x as planes x rows x columns, where y has one element a plane and row (columns are summed), or one a plane and column
/// (rows are summed), or one in all.
struct Plan {
  enum class Kind { everything, columns, rows } kind = Kind::everything;
  Layout<2> layout;
};

std::optional<Plan> plan(const Reduce& op) {
  const auto layout = layout_of(op.x.shape(), {op.x.strides(), repeated(op.y)});
  if (!layout || layout->step[0] != 1) return std::nullopt;
  const bool inner_summed = layout->step[1] == 0 && layout->columns > 1;
  if (layout->outer_axes == 0 && inner_summed) return Plan{Plan::Kind::everything, *layout};
  const auto summed = [&](int axis) { return layout->strides[size_t(axis)][1] == 0; };
  for (int axis = inner_summed ? 0 : 1; axis < layout->outer_axes; ++axis)
    if (summed(axis)) return std::nullopt;
  if (inner_summed) return Plan{Plan::Kind::columns, *layout};
  if (layout->outer_axes > 0 && summed(0)) return Plan{Plan::Kind::rows, *layout};
  return std::nullopt;
}

/// Parts of a fixed size, added in order.
void sum_everything(const Reduce& op) {
  const int64_t n = op.x.numel(), parts = (n + kSerialElements - 1) / kSerialElements;
  const Tensor partial = Tensor::empty({parts});
  float* sums = partial.data<float>();
  parallel_for(parts, 1, [&](int64_t b, int64_t e) {
    for (int64_t p = b; p < e; ++p) {
      const int64_t begin = p * kSerialElements;
      sums[p] = HWY_DYNAMIC_DISPATCH(sum_elements)(op.x, begin, std::min(kSerialElements, n - begin));
    }
  });
  double total = 0;
  for (int64_t p = 0; p < parts; ++p) total += double(sums[p]);
  put(op, 0, total);
}

void sum_columns(const Reduce& op, const Layout<2>& layout) {
  parallel_for(layout.rows, row_grain(layout.columns), [&](int64_t b, int64_t e) {
    for (int64_t row = b; row < e; ++row) {
      const auto at = layout.at(row);
      put(op, at[1], double(HWY_DYNAMIC_DISPATCH(sum_elements)(op.x, at[0], layout.columns)));
    }
  });
}

/// Tiles of rows x columns, whose number depends on the shape alone, are summed apart; then the tiles of a column are
/// added in order.
void sum_planes(const Reduce& op, const Layout<2>& layout) {
  constexpr int64_t kColumns = 1024, kParts = 32;
  const int64_t D = layout.columns, N = layout.sizes[0], planes = layout.rows / std::max<int64_t>(1, N);
  const int64_t rows = std::max({int64_t(1), row_grain(std::min(D, kColumns)), (N + kParts - 1) / kParts});
  const int64_t parts = (N + rows - 1) / rows, blocks = (D + kColumns - 1) / kColumns;
  const Tensor partial = Tensor::empty({planes, parts, D});
  float* sums = partial.data<float>();
  parallel_for(planes * parts * blocks, row_grain(rows * std::min(D, kColumns)), [&](int64_t b, int64_t e) {
    for (int64_t tile = b; tile < e; ++tile) {
      const int64_t column = tile % blocks * kColumns, part = tile / blocks % parts, plane = tile / blocks / parts;
      const int64_t at = layout.at(plane * N + part * rows)[0] + column;
      HWY_DYNAMIC_DISPATCH(sum_rows)
      (op.x, at, layout.strides[0][0], std::min(rows, N - part * rows), std::min(kColumns, D - column),
       sums + (plane * parts + part) * D + column);
    }
  });
  for (int64_t plane = 0; plane < planes; ++plane) {
    float* first = sums + plane * parts * D;
    for (int64_t part = 1; part < parts; ++part)
      for (int64_t i = 0; i < D; ++i) first[i] += first[part * D + i];
    const int64_t at = layout.at(plane * N)[1];
    for (int64_t i = 0; i < D; ++i) put(op, at + i * layout.step[1], double(first[i]));
  }
}

}  // namespace

bool supports(const Reduce& op) { return have_vector_dtype(op.x, op.y) && op.x.numel() > 0 && plan(op); }

void run(const Reduce& op) {
  const Plan p = *plan(op);
  switch (p.kind) {
    case Plan::Kind::everything: return sum_everything(op);
    case Plan::Kind::columns: return sum_columns(op, p.layout);
    case Plan::Kind::rows: return sum_planes(op, p.layout);
  }
}

}  // namespace rapt::kernels::vector
#endif
