#include <kernels/cpu/vector.hpp>
#include <kernels/cpu/vector_layout.hpp>
#include <kernels/cpu/vector_targets.hpp>
#include <rapt/base/threads.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_cell.cpp"
// clang-format off
#include <hwy/foreach_target.h>  // compiles this file once a target
#include <hwy/highway.h>
#include <kernels/cpu/vector_lanes-inl.hpp>
#include <kernels/cpu/vector_math-inl.hpp>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::vector::HWY_NAMESPACE {

/// Row b of an optional matrix; null when it is absent.
template <class T>
T* row_or_null(const Tensor& t, int64_t b) {
  return t ? t.data<T>() + b * t.stride(0) : nullptr;
}
/// A missing row holds zeros.
template <class T, class Extent>
HWY_INLINE VF load_or_zero(F32 d, const T* row, size_t i, Extent extent) {
  return row ? load(d, row + i, extent) : hn::Zero(d);
}
template <class T>
void copy_or_clear(const T* from, T* to, size_t n) {
  if (from)
    std::copy(from, from + n, to);
  else
    std::fill(to, to + n, T(0.0f));
}

bool has_ended(const Tensor& lengths, int64_t step, int64_t b) { return lengths && step >= lengths.data<int32_t>()[b]; }

template <class T>
struct ForwardRow {
  const T *gx, *gh, *h, *c;
  T *gates, *h_next, *c_next;
};

template <class T, class Extent>
HWY_INLINE void forward_lanes(Cell cell, const ForwardRow<T>& row, size_t H, size_t i, Extent extent) {
  const F32 d;
  const auto in = [&](size_t gate) HWY_ATTR {
    return hn::Add(load(d, row.gx + gate * H + i, extent), load(d, row.gh + gate * H + i, extent));
  };
  const auto keep = [&](VF value, size_t gate) HWY_ATTR {
    store(value, d, row.gates + gate * H + i, extent);
    return value;
  };
  if (cell == Cell::rnn) {
    store(keep(tanh(d, in(0)), 0), d, row.h_next + i, extent);
  } else if (cell == Cell::lstm) {
    const VF input = keep(sigmoid(d, in(0)), 0), forget = keep(sigmoid(d, in(1)), 1);
    const VF content = keep(tanh(d, in(2)), 2), output = keep(sigmoid(d, in(3)), 3);
    const VF c = hn::MulAdd(forget, load_or_zero(d, row.c, i, extent), hn::Mul(input, content));
    store(c, d, row.c_next + i, extent);
    store(hn::Mul(output, tanh(d, c)), d, row.h_next + i, extent);
  } else {
    const VF r = keep(sigmoid(d, in(0)), 0), z = keep(sigmoid(d, in(1)), 1);
    const VF inner = hn::MulAdd(r, load(d, row.gh + 2 * H + i, extent), load(d, row.gx + 2 * H + i, extent));
    const VF n = keep(tanh(d, inner), 2);
    store(hn::MulAdd(z, hn::Sub(load(d, row.h + i, extent), n), n), d, row.h_next + i, extent);
  }
}

template <class T>
void forward_rows(const CellForward& op, int64_t begin, int64_t end) {
  const auto H = size_t(op.h.size(1));
  for (int64_t b = begin; b < end; ++b) {
    const ForwardRow<T> row{row_or_null<T>(op.gx, b),    row_or_null<T>(op.gh, b),    row_or_null<T>(op.h, b),
                            row_or_null<T>(op.c, b),     row_or_null<T>(op.gates, b), row_or_null<T>(op.h_next, b),
                            row_or_null<T>(op.c_next, b)};
    if (has_ended(op.lengths, op.step, b)) {
      copy_or_clear(row.h, row.h_next, H);
      if (op.cell == Cell::lstm) copy_or_clear(row.c, row.c_next, H);
      continue;
    }
    for_lanes(H, [&](size_t i, auto extent) HWY_ATTR { forward_lanes(op.cell, row, H, i, extent); });
  }
}

template <class T>
struct BackwardRow {
  const T *gates, *gh, *h, *c, *c_next, *dh_next, *dc_next;
  T *dgx, *dgh, *dh, *dc;
  bool accumulate;
};

/// From the activated value: sigmoid' = s (1 - s), tanh' = 1 - t^2.
HWY_INLINE VF sigmoid_slope(F32 d, VF s) { return hn::Mul(s, hn::Sub(hn::Set(d, 1.0f), s)); }
HWY_INLINE VF tanh_slope(F32 d, VF t) { return hn::NegMulAdd(t, t, hn::Set(d, 1.0f)); }

template <class T, class Extent>
HWY_INLINE void backward_lanes(Cell cell, const BackwardRow<T>& row, size_t H, size_t i, Extent extent) {
  const F32 d;
  const VF one = hn::Set(d, 1.0f), zero = hn::Zero(d);
  const auto gate = [&](size_t g) HWY_ATTR { return load(d, row.gates + g * H + i, extent); };
  const auto put = [&](size_t g, VF gx, VF gh) HWY_ATTR {
    T* to = row.dgx + g * H + i;
    store(row.accumulate ? hn::Add(gx, load(d, to, extent)) : gx, d, to, extent);
    store(gh, d, row.dgh + g * H + i, extent);
  };
  const auto put_both = [&](size_t g, VF value) HWY_ATTR { put(g, value, value); };
  const VF dh = load_or_zero(d, row.dh_next, i, extent);
  if (cell == Cell::rnn) {  // h' = tanh(gx + gh)
    put_both(0, hn::Mul(dh, tanh_slope(d, gate(0))));
    store(zero, d, row.dh + i, extent);
  } else if (cell == Cell::lstm) {  // c' = f c + i g;  h' = o tanh(c')
    const VF input = gate(0), forget = gate(1), content = gate(2), output = gate(3);
    const VF t = tanh(d, load(d, row.c_next + i, extent));
    const VF dc = hn::MulAdd(hn::Mul(dh, output), tanh_slope(d, t), load_or_zero(d, row.dc_next, i, extent));
    put_both(0, hn::Mul(hn::Mul(dc, content), sigmoid_slope(d, input)));
    put_both(1, hn::Mul(hn::Mul(dc, load_or_zero(d, row.c, i, extent)), sigmoid_slope(d, forget)));
    put_both(2, hn::Mul(hn::Mul(dc, input), tanh_slope(d, content)));
    put_both(3, hn::Mul(hn::Mul(dh, t), sigmoid_slope(d, output)));
    store(zero, d, row.dh + i, extent);
    store(hn::Mul(dc, forget), d, row.dc + i, extent);
  } else {  // n = tanh(gx_n + r gh_n);  h' = (1 - z) n + z h
    const VF r = gate(0), z = gate(1), n = gate(2);
    const VF dn = hn::Mul(hn::Mul(dh, hn::Sub(one, z)), tanh_slope(d, n));
    put_both(0, hn::Mul(hn::Mul(dn, load(d, row.gh + 2 * H + i, extent)), sigmoid_slope(d, r)));
    put_both(1, hn::Mul(hn::Mul(dh, hn::Sub(load(d, row.h + i, extent), n)), sigmoid_slope(d, z)));
    put(2, dn, hn::Mul(dn, r));
    store(hn::Mul(dh, z), d, row.dh + i, extent);
  }
}

template <class T>
void backward_rows(const CellBackward& op, int64_t begin, int64_t end) {
  const auto H = size_t(op.h.size(1)), G = size_t(op.gates.size(1));
  for (int64_t b = begin; b < end; ++b) {
    const BackwardRow<T> row{row_or_null<T>(op.gates, b),   row_or_null<T>(op.gh, b),     row_or_null<T>(op.h, b),
                             row_or_null<T>(op.c, b),       row_or_null<T>(op.c_next, b), row_or_null<T>(op.dh_next, b),
                             row_or_null<T>(op.dc_next, b), row_or_null<T>(op.dgx, b),    row_or_null<T>(op.dgh, b),
                             row_or_null<T>(op.dh, b),      row_or_null<T>(op.dc, b),     op.accumulate_dgx};
    if (has_ended(op.lengths, op.step, b)) {
      copy_or_clear(row.dh_next, row.dh, H);
      if (op.cell == Cell::lstm) copy_or_clear(row.dc_next, row.dc, H);
      copy_or_clear<T>(nullptr, row.dgh, G);
      if (!op.accumulate_dgx) copy_or_clear<T>(nullptr, row.dgx, G);
      continue;
    }
    for_lanes(H, [&](size_t i, auto extent) HWY_ATTR { backward_lanes(op.cell, row, H, i, extent); });
  }
}

void cell_forward(const CellForward& op, int64_t begin, int64_t end) {
  with_type(op.h.dtype(), [&](auto type) HWY_ATTR { forward_rows<decltype(type)>(op, begin, end); });
}
void cell_backward(const CellBackward& op, int64_t begin, int64_t end) {
  with_type(op.h.dtype(), [&](auto type) HWY_ATTR { backward_rows<decltype(type)>(op, begin, end); });
}

}  // namespace rapt::kernels::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt::kernels::vector {
namespace {

HWY_EXPORT(cell_forward);
HWY_EXPORT(cell_backward);

}  // namespace

bool supports(const CellForward& op) {
  return have_vector_dtype(op.h) && all_are(op.h.dtype(), op.gx, op.gh, op.c, op.gates, op.h_next, op.c_next) &&
         have_unit_rows(op.gx, op.gh, op.h, op.c, op.gates, op.h_next, op.c_next);
}
bool supports(const CellBackward& op) {
  return have_vector_dtype(op.h) &&
         all_are(op.h.dtype(), op.gates, op.gh, op.c, op.c_next, op.dh_next, op.dc_next, op.dgx, op.dgh, op.dh,
                 op.dc) &&
         have_unit_rows(op.gates, op.gh, op.h, op.c, op.c_next, op.dh_next, op.dc_next, op.dgx, op.dgh, op.dh, op.dc);
}

void run(const CellForward& op) {
  parallel_for(op.h.size(0), row_grain(op.gates.size(1)), [&](int64_t b, int64_t e) {
    HWY_DYNAMIC_DISPATCH(cell_forward)(op, b, e);
  });
}
void run(const CellBackward& op) {
  parallel_for(op.h.size(0), row_grain(op.gates.size(1)), [&](int64_t b, int64_t e) {
    HWY_DYNAMIC_DISPATCH(cell_backward)(op, b, e);
  });
}

}  // namespace rapt::kernels::vector
#endif
