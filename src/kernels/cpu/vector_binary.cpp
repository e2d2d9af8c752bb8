#include <kernels/cpu/vector.hpp>
#include <kernels/cpu/vector_layout.hpp>
#include <kernels/cpu/vector_targets.hpp>
#include <rapt/base/threads.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_binary.cpp"
// clang-format off
#include <hwy/foreach_target.h>  // compiles this file once a target
#include <hwy/highway.h>
#include <kernels/cpu/vector_elementwise-inl.hpp>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::vector::HWY_NAMESPACE {

template <Binary f>
void combine(const float* a, const float* b, float alpha, float* y, size_t n) {
  const F32 d;
  const VF scale = hn::Set(d, alpha);
  for_lanes(n, [&](size_t i, auto extent) HWY_ATTR {
    const VF left = load(d, a + i, extent), right = load(d, b + i, extent);
    VF result = left;
    if constexpr (f == Binary::add) result = hn::Add(left, right);
    if constexpr (f == Binary::sub) result = hn::Sub(left, right);
    if constexpr (f == Binary::mul) result = hn::Mul(left, right);
    if constexpr (f == Binary::div) result = hn::Div(left, right);
    store(hn::Mul(scale, result), d, y + i, extent);
  });
}

decltype(&combine<Binary::add>) combine_of(Binary f) {
  switch (f) {
    case Binary::add: return combine<Binary::add>;
    case Binary::sub: return combine<Binary::sub>;
    case Binary::mul: return combine<Binary::mul>;
    case Binary::div: break;
  }
  return combine<Binary::div>;
}

void binary_forward(const BinaryForward& op, const Layout<3>& layout, int64_t begin, int64_t end) {
  const auto loop = combine_of(op.f);
  const auto alpha = float(op.alpha);
  for_stretches(layout, {&op.a, &op.b, &op.y}, op.accumulate, begin, end,
                [loop, alpha](const float* const(&in)[2], float* out, size_t n)
                    HWY_ATTR { loop(in[0], in[1], alpha, out, n); });
}

void affine(const Affine& op, const Layout<2>& layout, int64_t begin, int64_t end) {
  const F32 d;
  const VF alpha = hn::Set(d, float(op.alpha)), beta = hn::Set(d, float(op.beta));
  for_stretches(layout, {&op.x, &op.y}, op.accumulate, begin, end,
                [&](const float* const(&in)[1], float* out, size_t n) HWY_ATTR {
                  for_lanes(n, [&](size_t i, auto extent) HWY_ATTR {
                    store(hn::MulAdd(load(d, in[0] + i, extent), alpha, beta), d, out + i, extent);
                  });
                });
}

}  // namespace rapt::kernels::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt::kernels::vector {
namespace {

HWY_EXPORT(binary_forward);
HWY_EXPORT(affine);

auto layout(const BinaryForward& op) {
  return layout_of(op.y.shape(), {repeated(op.a), repeated(op.b), op.y.strides()});
}
auto layout(const Affine& op) { return layout_of(op.y.shape(), {op.x.strides(), op.y.strides()}); }

}  // namespace

bool supports(const BinaryForward& op) { return have_vector_dtype(op.a, op.b, op.y) && layout(op); }
bool supports(const Affine& op) { return have_vector_dtype(op.x, op.y) && layout(op); }

void run(const BinaryForward& op) {
  const auto l = *layout(op);
  parallel_for(l.pieces(), l.grain(), [&](int64_t b, int64_t e) { HWY_DYNAMIC_DISPATCH(binary_forward)(op, l, b, e); });
}
void run(const Affine& op) {
  const auto l = *layout(op);
  parallel_for(l.pieces(), l.grain(), [&](int64_t b, int64_t e) { HWY_DYNAMIC_DISPATCH(affine)(op, l, b, e); });
}

}  // namespace rapt::kernels::vector
#endif
