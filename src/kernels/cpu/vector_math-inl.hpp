// Elementary functions on lanes of f32, for any Highway target. Each stays within the relative error that
// tests/kernels/vector_math_test.cpp asserts over the whole range; NaN gives NaN. Results below the smallest normal
// f32 may be 0.
#include <hwy/highway.h>

#include <limits>

#if defined(RAPT_KERNELS_CPU_VECTOR_MATH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAPT_KERNELS_CPU_VECTOR_MATH_INL
#undef RAPT_KERNELS_CPU_VECTOR_MATH_INL
#else
#define RAPT_KERNELS_CPU_VECTOR_MATH_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::vector::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// x = n ln 2 + r with |r| <= ln 2 / 2, as what exp needs of it.
template <class D>
struct ExpParts {
  hn::Vec<D> expm1_r;                         ///< exp(r) - 1
  hn::Vec<hn::RebindToSigned<D>> n_exponent;  ///< n, moved to where a float keeps its exponent
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE ExpParts<D> exp_parts(D d, V x) {
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the mantissa, where it is ready to be shifted.
  const V magic = hn::Set(d, 12582912.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const V n = hn::Sub(shifted, magic);
  // ln 2 in two parts; the first has few enough bits that n times it is exact.
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693145751953125f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860682e-6f), r);
  V q = hn::Set(d, 0.0013814348494634032f);
  q = hn::MulAdd(q, r, hn::Set(d, 0.008368837647140026f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.041668400168418884f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.1666651964187622f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.4999999403953552f));
  const hn::RebindToSigned<D> di;
  return {hn::MulAdd(hn::Mul(r, r), q, r), hn::ShiftLeft<23>(hn::BitCast(di, shifted))};
}

/// exp(x) for x <= 88.7; -infinity gives 0. What softmax needs, where x <= 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_bounded(D d, V x) {
  const hn::RebindToSigned<D> di;
  const ExpParts<D> parts = exp_parts(d, x);
  const V mantissa = hn::Add(parts.expm1_r, hn::Set(d, 1.0f));
  const V y = hn::BitCast(d, hn::Add(hn::BitCast(di, mantissa), parts.n_exponent));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.33654f)), y);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp(D d, V x) {
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  return hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.72283f)), infinity, exp_bounded(d, x));
}

/// 2^x for x <= 127; -infinity gives 0. Cheaper than exp where the argument carries a factor anyway.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_bounded(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, 12582912.0f);  // as in exp_parts
  const V shifted = hn::Add(x, magic);
  const V r = hn::Sub(x, hn::Sub(shifted, magic));
  V p = hn::Set(d, 0.0013264591107144952f);
  p = hn::MulAdd(p, r, hn::Set(d, 0.009671619161963463f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0555073507130146f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.24022240936756134f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.6931470036506653f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const V y = hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0f)), y);
}

/// 1 / (1 + exp(-x))
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, exp(d, hn::Neg(x))));
}

/// (exp(2|x|) - 1) / (exp(2|x|) + 1) with the sign of x. The numerator is kept as 2^n (exp(r) - 1) + (2^n - 1), so that
/// nothing cancels for small x.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V one = hn::Set(d, 1.0f), limit = hn::Set(d, 9.02f);  // from here on the result rounds to 1
  const V a = hn::Abs(x);
  const V bounded = hn::IfThenElse(hn::Gt(a, limit), limit, a);
  const ExpParts<D> parts = exp_parts(d, hn::Add(bounded, bounded));
  const V power = hn::BitCast(d, hn::Add(hn::BitCast(di, one), parts.n_exponent));
  const V numerator = hn::MulAdd(power, parts.expm1_r, hn::Sub(power, one));
  return hn::CopySign(hn::Div(numerator, hn::Add(numerator, hn::Set(d, 2.0f))), x);
}

/// log((1 + s) / (1 - s)) for |s| <= 1/3, the core of both logarithms.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V log_ratio(D d, V s) {
  const V w = hn::Mul(s, s);
  V q = hn::Set(d, 0.28012019395828247f);
  q = hn::MulAdd(q, w, hn::Set(d, 0.28001800179481506f));
  q = hn::MulAdd(q, w, hn::Set(d, 0.4002152681350708f));
  q = hn::MulAdd(q, w, hn::Set(d, 0.666664183139801f));
  return hn::MulAdd(hn::Mul(s, w), q, hn::Add(s, s));
}

/// Natural logarithm: -infinity for 0, NaN below.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V log(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const auto tiny = hn::Lt(x, hn::Set(d, std::numeric_limits<float>::min()));
  const V normal = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 0x1p23f)), x);
  // x = 2^e m with m in [sqrt(1/2), sqrt(2))
  const auto bits = hn::BitCast(di, normal);
  const auto e = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3F3504F3)));
  const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(e)));
  const V exponent = hn::Sub(hn::ConvertTo(d, e), hn::IfThenElseZero(tiny, hn::Set(d, 23.0f)));
  const V log_m = log_ratio(d, hn::Div(hn::Sub(m, hn::Set(d, 1.0f)), hn::Add(m, hn::Set(d, 1.0f))));
  V y = hn::MulAdd(exponent, hn::Set(d, 1.42860682e-6f), log_m);
  y = hn::MulAdd(exponent, hn::Set(d, 0.693145751953125f), y);
  y = hn::IfThenElse(hn::Lt(x, infinity), y, hn::Abs(x));  // infinity and NaN stay
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), y);
}

/// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|))
template <class D, class V = hn::Vec<D>>
HWY_INLINE V softplus(D d, V x) {
  const V u = exp_bounded(d, hn::Neg(hn::Abs(x)));
  const V log1p_u = log_ratio(d, hn::Div(u, hn::Add(u, hn::Set(d, 2.0f))));
  return hn::Add(hn::Max(x, hn::Zero(d)), log1p_u);
}

/// The standard normal distribution at x: density phi and cumulated Phi. erf(x) = 2 Phi(sqrt(2) x) - 1, but Phi keeps its
/// relative precision far into the left tail.
template <class D>
struct Normal {
  hn::Vec<D> density, cumulated;
};
/// Phi(-t) = exp(-t^2 / 2) P(1 / (1 + 0.3 t)) for t >= 0, with a polynomial P.
template <class D, class V = hn::Vec<D>>
HWY_INLINE Normal<D> normal(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V e = exp2_bounded(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.72134752f)));  // -log2(e) / 2
  const V u = hn::Div(one, hn::MulAdd(hn::Abs(x), hn::Set(d, 0.3f), one));
  V p = hn::Set(d, 0.038311488926410675f);
  p = hn::MulAdd(p, u, hn::Set(d, -0.16884101927280426f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.2279876172542572f));
  p = hn::MulAdd(p, u, hn::Set(d, -0.07573618739843369f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.14200255274772644f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.09491100907325745f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.1218620017170906f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.11949589103460312f));
  p = hn::MulAdd(p, u, hn::Set(d, 6.686065262329066e-06f));
  const V tail = hn::Mul(e, p);
  const V cumulated = hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Sub(one, tail), tail);
  return {hn::Mul(e, hn::Set(d, 0.3989422804f)), cumulated};
}

/// x Phi(x)
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu(D d, V x) {
  return hn::Mul(x, normal(d, x).cumulated);
}

/// 2 sqrt(2/pi) (x + 0.044715 x^3): gelu_tanh(x) = x sigmoid of this.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_tanh_argument(D d, V x) {
  const V cubic = hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.071354816f), hn::Set(d, 1.595769122f));
  return hn::Mul(x, cubic);
}

}  // namespace rapt::kernels::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
