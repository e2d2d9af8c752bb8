#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

namespace rapt {

enum class DType : uint8_t { f64, f32, bf16, f16, i8, i32, i64 };

constexpr size_t size_of(DType t) {
  switch (t) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::bf16:
    case DType::f16: return 2;
    case DType::i8: return 1;
  }
  return 0;
}
constexpr bool is_floating(DType t) { return t <= DType::f16; }
std::string to_string(DType t);

/// The upper half of an f32: 8 bits of exponent, 8 of precision. Rounds to nearest even.
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float x) {
    const uint32_t u = std::bit_cast<uint32_t>(x);
    const bool nan = (u & 0x7FFFFFFFu) > 0x7F800000u;
    bits = nan ? uint16_t(u >> 16 | 0x40u) : uint16_t((u + 0x7FFFu + (u >> 16 & 1u)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

/// IEEE half precision, for storage.
struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float x);
  explicit operator float() const;
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace rapt
