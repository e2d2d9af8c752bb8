// Blocks of attention with the bf16 dot products of AVX-512: operands in bf16, sums and exponentials in f32.
#include <kernels/cpu/attention_unit.hpp>

#if defined(__AVX512BF16__)
// gcc 12 takes the undefined lanes of its own intrinsics for a mistake (its bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <kernels/cpu/transpose_avx512.hpp>
#endif

namespace rapt::kernels::cpu::attention {

#if defined(__AVX512BF16__)
namespace {

using F = __m512;
using I = __m512i;

/// Lanes below `count`.
__mmask16 first_lanes(int count) { return count >= 16 ? 0xFFFF : count <= 0 ? 0 : __mmask16((1u << count) - 1); }
__mmask32 first_halves(int count) { return count >= 32 ? ~0u : count <= 0 ? 0 : (1u << count) - 1; }

// ------------------------------------------------------------------------------------------------------------- products

template <int R, int V>
inline void multiply_block(const Product& p, int row, int column) {
  const uint16_t* a = static_cast<const uint16_t*>(p.a) + row * p.a_stride;
  const uint16_t* b = static_cast<const uint16_t*>(p.b) + 2 * column;
  float* c = p.c + row * p.c_stride + column;
  F sum[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      sum[r][v] = p.accumulate ? _mm512_load_ps(c + r * p.c_stride + 16 * v) : _mm512_setzero_ps();
  for (int k = 0; k < p.k; k += 2) {
    __m512bh y[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) y[v] = (__m512bh)_mm512_load_si512(b + 32 * v);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      int pair;
      __builtin_memcpy(&pair, a + r * p.a_stride, sizeof pair);
      const __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], x, y[v]);
    }
    a += 2;
    b += 2 * p.b_stride;
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) _mm512_store_ps(c + r * p.c_stride + 16 * v, sum[r][v]);
}

template <int V>
void multiply_columns(const Product& p, int column) {
  constexpr int kRows = V == 4 ? 6 : 8;  // 24 sums, or as many as V allows
  int row = 0;
  for (; row + kRows <= p.m; row += kRows) multiply_block<kRows, V>(p, row, column);
  for (; row + 4 <= p.m; row += 4) multiply_block<4, V>(p, row, column);
  switch (p.m - row) {
    case 3: return multiply_block<3, V>(p, row, column);
    case 2: return multiply_block<2, V>(p, row, column);
    case 1: return multiply_block<1, V>(p, row, column);
  }
}

void multiply(const Product& p) {
  int column = 0;
  for (; column + 64 <= p.n; column += 64) multiply_columns<4>(p, column);
  switch ((p.n - column) / 16) {
    case 3: return multiply_columns<3>(p, column);
    case 2: return multiply_columns<2>(p, column);
    case 1: return multiply_columns<1>(p, column);
  }
}

// -------------------------------------------------------------------------------------------------------------- packing

const uint16_t* row_of(const Rows& from, int r) { return static_cast<const uint16_t*>(from.data) + r * from.stride; }

void pack_rows(const Rows& from, void* to, int64_t stride, int padded_rows) {
  uint16_t* out = static_cast<uint16_t*>(to);
  for (int r = 0; r < padded_rows; ++r, out += stride)
    for (int c = 0; c < stride; c += 32) {
      const __mmask32 inside = r < from.rows ? first_halves(from.columns - c) : 0;
      _mm512_store_si512(out + c,
                         inside ? _mm512_maskz_loadu_epi16(inside, row_of(from, r) + c) : _mm512_setzero_si512());
    }
}

/// 16 elements of row r from column c on, each in the low half of 32 bits; zero outside.
I load_widened(const Rows& from, int r, int c) {
  const __mmask16 inside = r < from.rows ? first_lanes(from.columns - c) : 0;
  if (!inside) return _mm512_setzero_si512();
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(inside, row_of(from, r) + c));
}

void pack_b(const Rows& from, void* to, int64_t stride, int padded_rows) {
  uint32_t* out = static_cast<uint32_t*>(to);
  for (int r = 0; r < padded_rows; r += 2, out += stride)
    for (int c = 0; c < stride; c += 16) {
      const I odd = _mm512_slli_epi32(load_widened(from, r + 1, c), 16);
      _mm512_store_si512(out + c, _mm512_or_si512(load_widened(from, r, c), odd));
    }
}

/// Pairs along a row of `from` are 32-bit words already: only these words are transposed.
void pack_b_transposed(const Rows& from, void* to, int64_t stride, int padded_columns) {
  uint32_t* out = static_cast<uint32_t*>(to);
  for (int r = 0; r < stride; r += 16)
    for (int c = 0; c < padded_columns; c += 32) {
      const __mmask32 inside = first_halves(from.columns - c);
      I words[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i)
        words[i] = inside && r + i < from.rows ? _mm512_maskz_loadu_epi16(inside, row_of(from, r + i) + c)
                                               : _mm512_setzero_si512();
      transpose(words);
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) _mm512_store_si512(out + (c / 2 + i) * stride + r, words[i]);
    }
}

// ----------------------------------------------------------------------------------------------------------- exponentials

/// 2^t to 2.6e-6, which is far below the rounding to bf16 that follows.
F exp2(F t) {
  const F n = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), f = _mm512_sub_ps(t, n);
  F y = _mm512_set1_ps(0.0095701019f);
  y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.0559178603f));
  y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.2402474483f));
  y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.6931218147f));
  y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.9999992614f));
  return _mm512_scalef_ps(y, n);
}

I to_bf16(F low, F high) { return (I)_mm512_cvtne2ps_pbh(high, low); }

/// Bits c .. c + 15 of a row of dropout bits.
__mmask16 kept(const uint8_t* keep, int row, int c) {
  uint16_t bits;
  __builtin_memcpy(&bits, keep + row * kKeepBytes + c / 8, sizeof bits);
  return bits;
}

float greatest(const float* s, int visible) {
  F high = _mm512_set1_ps(-__builtin_inff());
  for (int c = 0; c < visible; c += 16)
    high = _mm512_mask_max_ps(high, first_lanes(visible - c), high, _mm512_load_ps(s + c));
  return _mm512_reduce_max_ps(high);
}

/// shrink[r] = 2^(old - new) of the running maxima, whose place the new ones take.
void raise_maxima(const SoftmaxBlock& b, float* shrink) {
  for (int r = 0; r < b.rows; r += 16) {
    alignas(64) float high[16];
    const int count = b.rows - r < 16 ? b.rows - r : 16;
    for (int i = 0; i < count; ++i)
      high[i] = b.visible[r + i] ? greatest(b.s + (r + i) * b.s_stride, b.visible[r + i]) : -__builtin_inff();
    const __mmask16 lanes = first_lanes(count);
    const F old = _mm512_maskz_loadu_ps(lanes, b.maximum + r);
    const F now = _mm512_max_ps(old, _mm512_mul_ps(_mm512_load_ps(high), _mm512_set1_ps(b.factor)));
    _mm512_mask_storeu_ps(b.maximum + r, lanes, now);
    _mm512_storeu_ps(shrink + r, exp2(_mm512_sub_ps(old, now)));
  }
}

void softmax(const SoftmaxBlock& b) {
  alignas(64) float shrink[kMaxSoftmaxRows];
  raise_maxima(b, shrink);
  const F factor = _mm512_set1_ps(b.factor), zero = _mm512_setzero_ps();
  for (int r = 0; r < b.rows; ++r) {
    const float* s = b.s + r * b.s_stride;
    uint16_t* p = static_cast<uint16_t*>(b.p) + r * b.p_stride;
    const int visible = b.visible[r];
    F sum = _mm512_load_ps(b.sum + r * kLanes);
    if (visible > 0 && !b.first && shrink[r] != 1.0f) {
      const F by = _mm512_set1_ps(shrink[r]);
      sum = _mm512_mul_ps(sum, by);
      float* o = b.o + r * b.o_stride;
      for (int c = 0; c < b.o_columns; c += 16) _mm512_store_ps(o + c, _mm512_mul_ps(_mm512_load_ps(o + c), by));
    }
    const F shift = _mm512_set1_ps(b.maximum[r]);
    for (int c = 0; c < b.columns; c += 32) {
      const __mmask16 low = first_lanes(visible - c), high = first_lanes(visible - c - 16);
      F x = zero, y = zero;
      if (low) x = _mm512_maskz_mov_ps(low, exp2(_mm512_fmsub_ps(_mm512_maskz_load_ps(low, s + c), factor, shift)));
      if (high)
        y = _mm512_maskz_mov_ps(high, exp2(_mm512_fmsub_ps(_mm512_maskz_load_ps(high, s + c + 16), factor, shift)));
      sum = _mm512_add_ps(sum, _mm512_add_ps(x, y));
      if (b.keep) {
        x = _mm512_maskz_mov_ps(kept(b.keep, r, c), x);
        y = _mm512_maskz_mov_ps(kept(b.keep, r, c + 16), y);
      }
      _mm512_store_si512(p + c, to_bf16(x, y));
    }
    _mm512_store_ps(b.sum + r * kLanes, sum);
  }
}

/// P and dS of one key and 16 queries.
struct Gradients {
  F p, ds;
};
inline Gradients gradients(const GradientBlock& b, int r, int c) {
  const int hidden = r + b.diagonal - c;
  const __mmask16 seen = r < b.keys ? __mmask16(~first_lanes(hidden)) : 0;
  if (!seen) return {_mm512_setzero_ps(), _mm512_setzero_ps()};
  const F s = _mm512_load_ps(b.s + r * b.stride + c), dp = _mm512_load_ps(b.dp + r * b.stride + c);
  const F t = _mm512_fmsub_ps(s, _mm512_set1_ps(b.factor), _mm512_load_ps(b.lse2 + c));
  const F w = _mm512_maskz_mov_ps(seen, exp2(t));
  F keep = _mm512_set1_ps(b.keep_scale);
  if (b.keep) keep = _mm512_maskz_mov_ps(kept(b.keep, r, c), keep);
  return {_mm512_mul_ps(w, keep), _mm512_mul_ps(w, _mm512_fmsub_ps(keep, dp, _mm512_load_ps(b.delta + c)))};
}

void store_halves(uint16_t* low, uint16_t* high, I both) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(low), _mm512_castsi512_si256(both));
  _mm256_store_si256(reinterpret_cast<__m256i*>(high), _mm512_extracti64x4_epi64(both, 1));
}

/// 32 keys from row r on and 16 queries from column c on. Two neighbouring rows of dS make a row of words (a pair of
/// keys), which are then transposed as words.
void gradient_chunk(const GradientBlock& b, int r, int c) {
  uint16_t* p = static_cast<uint16_t*>(b.p) + r * b.p_stride + c;
  uint16_t* ds = static_cast<uint16_t*>(b.ds) + r * b.p_stride + c;
  const I alternate = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                       5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  I words[16];
  for (int i = 0; i < 16; ++i, p += 2 * b.p_stride, ds += 2 * b.p_stride) {
    const Gradients even = gradients(b, r + 2 * i, c), odd = gradients(b, r + 2 * i + 1, c);
    store_halves(p, p + b.p_stride, to_bf16(even.p, odd.p));
    const I both = to_bf16(even.ds, odd.ds);
    store_halves(ds, ds + b.p_stride, both);
    words[i] = _mm512_permutexvar_epi16(alternate, both);
  }
  transpose(words);
  uint16_t* out = static_cast<uint16_t*>(b.ds_transposed) + c * b.transposed_stride + r;
  for (int i = 0; i < 16; ++i) _mm512_store_si512(out + i * b.transposed_stride, words[i]);
}

void gradient(const GradientBlock& b) {
  for (int r = 0; r < b.keys; r += 32)
    for (int c = 0; c < b.queries; c += 16) gradient_chunk(b, r, c);
  if (b.padded_queries <= b.queries) return;
  const __m256i zero = _mm256_setzero_si256();
  for (int r = 0; r < b.keys; ++r) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(static_cast<uint16_t*>(b.p) + r * b.p_stride + b.queries), zero);
    _mm256_store_si256(reinterpret_cast<__m256i*>(static_cast<uint16_t*>(b.ds) + r * b.p_stride + b.queries), zero);
  }
}

/// Sixteen results of a row, with what is already there if they are to be added to it.
inline F scaled(const float* from, F factor, __mmask16 inside, const uint16_t* to, bool accumulate) {
  const F y = _mm512_mul_ps(_mm512_maskz_load_ps(inside, from), factor);
  if (!accumulate) return y;
  const I bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(inside, to));
  return _mm512_add_ps(y, _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16)));
}

void store(const float* from, int64_t stride, const float* factor, int factor_step, const Rows& to, bool accumulate) {
  for (int r = 0; r < to.rows; ++r, from += stride) {
    uint16_t* row = static_cast<uint16_t*>(to.data) + r * to.stride;
    const float f = factor[r * factor_step];
    if (f == 0 && accumulate) continue;
    for (int c = 0; c < to.columns; c += 32) {
      const int left = f == 0 ? 0 : to.columns - c;  // nothing is read for a factor of 0
      const __mmask16 low = first_lanes(left), high = first_lanes(left - 16);
      const F by = _mm512_set1_ps(f);
      const F x = scaled(from + c, by, low, row + c, accumulate),
              y = scaled(from + c + 16, by, high, row + c + 16, accumulate);
      _mm512_mask_storeu_epi16(row + c, first_halves(to.columns - c), to_bf16(x, y));
    }
  }
}

void nothing() {}

}  // namespace

const Unit* avx512bf16_unit() {
  static constexpr Unit unit{2,       2,        false, nothing, nothing, multiply, pack_rows, pack_b, pack_b_transposed,
                             softmax, gradient, store};
  return &unit;
}
#else
const Unit* avx512bf16_unit() { return nullptr; }
#endif

}  // namespace rapt::kernels::cpu::attention
