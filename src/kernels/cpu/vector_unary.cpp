#include <kernels/cpu/vector.hpp>
#include <kernels/cpu/vector_layout.hpp>
#include <kernels/cpu/vector_targets.hpp>
#include <rapt/base/threads.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_unary.cpp"
// clang-format off
#include <hwy/foreach_target.h>  // compiles this file once a target
#include <hwy/highway.h>
#include <kernels/cpu/vector_elementwise-inl.hpp>
#include <kernels/cpu/vector_math-inl.hpp>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::vector::HWY_NAMESPACE {

/// One function and its derivative at x; the switch stands outside of all loops.
template <Unary f>
struct Function {
  static HWY_INLINE VF value(F32 d, VF x) {
    if constexpr (f == Unary::neg) return hn::Neg(x);
    if constexpr (f == Unary::exp) return exp(d, x);
    if constexpr (f == Unary::log) return log(d, x);
    if constexpr (f == Unary::sqrt) return hn::Sqrt(x);
    if constexpr (f == Unary::square) return hn::Mul(x, x);
    if constexpr (f == Unary::relu) return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
    if constexpr (f == Unary::gelu) return gelu(d, x);
    if constexpr (f == Unary::gelu_tanh) return hn::Mul(x, sigmoid(d, gelu_tanh_argument(d, x)));
    if constexpr (f == Unary::silu) return hn::Mul(x, sigmoid(d, x));
    if constexpr (f == Unary::tanh) return tanh(d, x);
    if constexpr (f == Unary::sigmoid) return sigmoid(d, x);
    if constexpr (f == Unary::softplus) return softplus(d, x);
  }
  static HWY_INLINE VF sigmoid_slope(F32 d, VF x) {
    const VF e = exp_bounded(d, hn::Neg(hn::Abs(x)));
    const VF sum = hn::Add(e, hn::Set(d, 1.0f));
    return hn::Div(e, hn::Mul(sum, sum));
  }
  static HWY_INLINE VF derivative(F32 d, VF x) {
    const VF one = hn::Set(d, 1.0f);
    if constexpr (f == Unary::neg) return hn::Neg(one);
    if constexpr (f == Unary::exp) return exp(d, x);
    if constexpr (f == Unary::log) return hn::Div(one, x);
    if constexpr (f == Unary::sqrt) return hn::Div(hn::Set(d, 0.5f), hn::Sqrt(x));
    if constexpr (f == Unary::square) return hn::Add(x, x);
    if constexpr (f == Unary::relu) return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), one);
    if constexpr (f == Unary::gelu) {  // Phi(x) + x phi(x)
      const auto n = normal(d, x);
      return hn::MulAdd(x, n.density, n.cumulated);
    }
    if constexpr (f ==
                  Unary::gelu_tanh) {  // s + x s (1 - s) u' with s = sigmoid(u), u = 2 sqrt(2/pi) (x + 0.044715 x^3)
      const VF s = sigmoid(d, gelu_tanh_argument(d, x));
      const VF du = hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.214064448f), hn::Set(d, 1.595769122f));
      return hn::MulAdd(hn::Mul(x, hn::Mul(s, hn::Sub(one, s))), du, s);
    }
    if constexpr (f == Unary::silu) {  // s + x s (1 - s)
      const VF s = sigmoid(d, x);
      return hn::MulAdd(hn::Mul(x, s), hn::Sub(one, s), s);
    }
    // 1 - t^2 and s (1 - s) would cancel in the tails; sigmoid'(x) = e / (1 + e)^2, e = exp(-|x|), does not.
    if constexpr (f == Unary::tanh) return hn::Mul(hn::Set(d, 4.0f), sigmoid_slope(d, hn::Add(x, x)));
    if constexpr (f == Unary::sigmoid) return sigmoid_slope(d, x);
    if constexpr (f == Unary::softplus) return sigmoid(d, x);
  }
};

template <Unary f>
void values(const float* x, float* y, size_t n) {
  const F32 d;
  for_lanes(n, [&](size_t i, auto extent)
                   HWY_ATTR { store(Function<f>::value(d, load(d, x + i, extent)), d, y + i, extent); });
}
template <Unary f>
void products(const float* x, const float* dy, float* dx, size_t n) {
  const F32 d;
  for_lanes(n, [&](size_t i, auto extent) HWY_ATTR {
    const VF slope = Function<f>::derivative(d, load(d, x + i, extent));
    store(hn::Mul(load(d, dy + i, extent), slope), d, dx + i, extent);
  });
}

struct Loops {
  decltype(&values<Unary::neg>) values;
  decltype(&products<Unary::neg>) products;
};
template <Unary f>
Loops loops() {
  return {values<f>, products<f>};
}
Loops loops_of(Unary f) {
  switch (f) {
    case Unary::neg: return loops<Unary::neg>();
    case Unary::exp: return loops<Unary::exp>();
    case Unary::log: return loops<Unary::log>();
    case Unary::sqrt: return loops<Unary::sqrt>();
    case Unary::square: return loops<Unary::square>();
    case Unary::relu: return loops<Unary::relu>();
    case Unary::gelu: return loops<Unary::gelu>();
    case Unary::gelu_tanh: return loops<Unary::gelu_tanh>();
    case Unary::silu: return loops<Unary::silu>();
    case Unary::tanh: return loops<Unary::tanh>();
    case Unary::sigmoid: return loops<Unary::sigmoid>();
    case Unary::softplus: break;
  }
  return loops<Unary::softplus>();
}

void unary_forward(const UnaryForward& u, const Layout<2>& layout, int64_t begin, int64_t end) {
  const auto loop = loops_of(u.f).values;
  for_stretches(layout, {&u.x, &u.y}, false, begin, end,
                [loop](const float* const(&in)[1], float* out, size_t n) HWY_ATTR { loop(in[0], out, n); });
}
void unary_backward(const UnaryBackward& u, const Layout<3>& layout, int64_t begin, int64_t end) {
  const auto loop = loops_of(u.f).products;
  for_stretches(layout, {&u.x, &u.dy, &u.dx}, u.accumulate, begin, end,
                [loop](const float* const(&in)[2], float* out, size_t n) HWY_ATTR { loop(in[0], in[1], out, n); });
}

}  // namespace rapt::kernels::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt::kernels::vector {
namespace {

HWY_EXPORT(unary_forward);
HWY_EXPORT(unary_backward);

auto layout(const UnaryForward& u) { return layout_of(u.y.shape(), {u.x.strides(), u.y.strides()}); }
auto layout(const UnaryBackward& u) { return layout_of(u.dx.shape(), {u.x.strides(), u.dy.strides(), u.dx.strides()}); }

}  // namespace

bool supports(const UnaryForward& u) { return have_vector_dtype(u.x, u.y) && layout(u); }
bool supports(const UnaryBackward& u) { return have_vector_dtype(u.x, u.dy, u.dx) && layout(u); }

void run(const UnaryForward& u) {
  const auto l = *layout(u);
  parallel_for(l.pieces(), l.grain(), [&](int64_t b, int64_t e) { HWY_DYNAMIC_DISPATCH(unary_forward)(u, l, b, e); });
}
void run(const UnaryBackward& u) {
  const auto l = *layout(u);
  parallel_for(l.pieces(), l.grain(), [&](int64_t b, int64_t e) { HWY_DYNAMIC_DISPATCH(unary_backward)(u, l, b, e); });
}

}  // namespace rapt::kernels::vector
#endif
