#if defined(__x86_64__)
#include <kernels/cpu/gemm_kernels.hpp>
#include <kernels/cpu/transpose_avx512.hpp>

namespace rapt::kernels::cpu {
namespace {

__mmask16 first16(int64_t n) { return n >= 16 ? __mmask16(0xFFFF) : n <= 0 ? __mmask16(0) : __mmask16((1u << n) - 1); }
__mmask32 first32(int64_t n) { return n >= 32 ? ~__mmask32(0) : n <= 0 ? __mmask32(0) : __mmask32((1u << n) - 1); }
__mmask64 first64(int64_t n) {
  return n >= 64 ? ~__mmask64(0) : n <= 0 ? __mmask64(0) : __mmask64((uint64_t(1) << n) - 1);
}

/// f32 to bf16 in the upper half of each lane, to nearest even, NaN kept; subnormals too, which the bf16 conversion
/// instruction flushes.
__m512i rounded(__m512 x) {
  const __m512i u = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m512i quiet = _mm512_or_si512(u, _mm512_set1_epi32(0x400000));
  return _mm512_and_si512(_mm512_mask_mov_epi32(up, nan, quiet), _mm512_set1_epi32(int(0xFFFF0000)));
}
__m512i widened(__m256i bf16) { return _mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16); }

template <class T>
constexpr bool kIsFloat = false;
template <>
constexpr bool kIsFloat<float> = true;

/// Elements of k in one unit.
constexpr int64_t group_of(Packed form) { return form == Packed::bf16 ? 2 : form >= Packed::s8 ? 4 : 1; }

/// 16 units of one line from `p` on, of which `left` elements exist; k has unit stride.
template <class T, Packed kForm>
__m512i load_along(const T* p, int64_t left) {
  if constexpr (kForm == Packed::f32) {
    return _mm512_maskz_loadu_epi32(first16(left), p);
  } else if constexpr (kForm == Packed::rounded_f32) {
    if constexpr (kIsFloat<T>)
      return rounded(_mm512_maskz_loadu_ps(first16(left), p));
    else
      return widened(_mm256_maskz_loadu_epi16(first16(left), p));
  } else if constexpr (kForm == Packed::bf16) {
    if constexpr (kIsFloat<T>) {
      const __m512i low = _mm512_srli_epi32(rounded(_mm512_maskz_loadu_ps(first16(left), p)), 16);
      const __m512i high = _mm512_srli_epi32(rounded(_mm512_maskz_loadu_ps(first16(left - 16), p + 16)), 16);
      return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(low)), _mm512_cvtepi32_epi16(high), 1);
    } else {
      return _mm512_maskz_loadu_epi16(first32(left), p);
    }
  } else {
    const __m512i bytes = _mm512_maskz_loadu_epi8(first64(left), p);
    return kForm == Packed::u8 ? _mm512_xor_si512(bytes, _mm512_set1_epi8(char(0x80))) : bytes;
  }
}

/// One unit of each of up to 16 neighbouring lines; lines have unit stride, `step` elements lie between values of k,
/// of which `left` exist.
template <class T, Packed kForm>
__m512i load_across(const T* p, int64_t step, int64_t left, __mmask16 lines) {
  if constexpr (kForm == Packed::f32) {
    return _mm512_maskz_loadu_epi32(lines, p);
  } else if constexpr (kForm == Packed::rounded_f32) {
    if constexpr (kIsFloat<T>)
      return rounded(_mm512_maskz_loadu_ps(lines, p));
    else
      return widened(_mm256_maskz_loadu_epi16(lines, p));
  } else if constexpr (kForm == Packed::bf16) {
    const __mmask16 second = left > 1 ? lines : __mmask16(0);
    const T* next = left > 1 ? p + step : p;
    if constexpr (kIsFloat<T>)
      return _mm512_or_si512(_mm512_srli_epi32(rounded(_mm512_maskz_loadu_ps(lines, p)), 16),
                             rounded(_mm512_maskz_loadu_ps(second, next)));
    else
      return _mm512_or_si512(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lines, p)),
                             widened(_mm256_maskz_loadu_epi16(second, next)));
  } else {
    __m512i unit = _mm512_setzero_si512();
    for (int64_t i = 0; i < 4 && i < left; ++i) {
      const __m512i row = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(lines, p + i * step));
      unit = _mm512_or_si512(unit, _mm512_sllv_epi32(row, _mm512_set1_epi32(int(8 * i))));
    }
    return kForm == Packed::u8 ? _mm512_xor_si512(unit, _mm512_set1_epi8(char(0x80))) : unit;
  }
}

template <class T, Packed kForm>
void load_block_along(const PackJob& job, int64_t line, int64_t unit, __m512i (&block)[16]) {
  const T* source = static_cast<const T*>(job.source) + unit * group_of(kForm);
  const int64_t left = job.depth - unit * group_of(kForm);
#pragma GCC unroll 16
  for (int64_t i = 0; i < 16; ++i)
    block[i] = line + i < job.lines && left > 0 ? load_along<T, kForm>(source + (line + i) * job.line_stride, left)
                                                : _mm512_setzero_si512();
}

template <class T, Packed kForm>
__m512i load_unit_across(const PackJob& job, int64_t line, int64_t unit) {
  const int64_t k = unit * group_of(kForm), left = job.depth - k;
  if (left <= 0) return _mm512_setzero_si512();
  const T* source = static_cast<const T*>(job.source) + k * job.depth_stride + line;
  // The next slab of k: rows lie too far apart for the processor to foresee.
  for (int64_t i = 0; i < group_of(kForm); ++i)
    __builtin_prefetch(source + (16 * group_of(kForm) + i) * job.depth_stride);
  return load_across<T, kForm>(source, job.depth_stride, left, first16(job.lines - line));
}

template <class T, Packed kForm>
void pack_interleaved(const PackJob& job) {
  int32_t* packed = static_cast<int32_t*>(job.packed);
  if (job.depth_stride != 1) {
    for (int64_t unit = 0; unit < job.padded_units; ++unit)
      for (int64_t line = 0; line < job.width; line += 16)
        _mm512_mask_storeu_epi32(packed + unit * job.width + line, first16(job.width - line),
                                 load_unit_across<T, kForm>(job, line, unit));
    return;
  }
  for (int64_t line = 0; line < job.width; line += 16)
    for (int64_t unit = 0; unit < job.padded_units; unit += 16) {
      __m512i block[16];
      load_block_along<T, kForm>(job, line, unit, block);
      transpose(block);
      const int64_t count = job.padded_units - unit < 16 ? job.padded_units - unit : 16;
      for (int64_t i = 0; i < count; ++i)
        _mm512_mask_storeu_epi32(packed + (unit + i) * job.width + line, first16(job.width - line), block[i]);
    }
}

/// padded_units is a multiple of 16 here.
template <class T, Packed kForm>
void pack_tiles(const PackJob& job) {
  __m512i* packed = static_cast<__m512i*>(job.packed);
  for (int64_t unit = 0; unit < job.padded_units; unit += 16) {
    __m512i block[16];
    if (job.depth_stride == 1) {
      load_block_along<T, kForm>(job, 0, unit, block);
    } else {
#pragma GCC unroll 16
      for (int64_t i = 0; i < 16; ++i) block[i] = load_unit_across<T, kForm>(job, 0, unit + i);
      transpose(block);
    }
#pragma GCC unroll 16
    for (int64_t i = 0; i < 16; ++i) _mm512_storeu_si512(packed + unit + i, block[i]);
  }
}

void sum_lines(const PackJob& job) {
  for (int64_t line = 0; line < job.width; line += 16) {
    __m512i sum = _mm512_setzero_si512();
    const __mmask16 columns = first16(job.width - line);
    for (int64_t unit = 0; unit < job.padded_units; ++unit) {
      const __m512i bytes =
          _mm512_maskz_loadu_epi32(columns, static_cast<int32_t*>(job.packed) + unit * job.width + line);
      const __m512i pairs = _mm512_maddubs_epi16(_mm512_set1_epi8(1), bytes);
      sum = _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
    }
    _mm512_mask_storeu_epi32(job.compensation + line, columns, _mm512_mullo_epi32(sum, _mm512_set1_epi32(-128)));
  }
}

template <class T, Packed kForm>
void pack_as(const PackJob& job) {
  job.tiles ? pack_tiles<T, kForm>(job) : pack_interleaved<T, kForm>(job);
}

}  // namespace

void pack_avx512(const PackJob& job) {
  const bool bf16 = job.type == Element::bf16;
  switch (job.form) {
    case Packed::f32: return pack_as<float, Packed::f32>(job);
    case Packed::rounded_f32:
      return bf16 ? pack_as<uint16_t, Packed::rounded_f32>(job) : pack_as<float, Packed::rounded_f32>(job);
    case Packed::bf16: return bf16 ? pack_as<uint16_t, Packed::bf16>(job) : pack_as<float, Packed::bf16>(job);
    case Packed::s8: pack_as<int8_t, Packed::s8>(job); break;
    case Packed::u8: return pack_as<int8_t, Packed::u8>(job);
  }
  if (job.compensation) sum_lines(job);
}

}  // namespace rapt::kernels::cpu
#endif
