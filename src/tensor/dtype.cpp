#include <rapt/tensor/dtype.hpp>

namespace rapt {

std::string to_string(DType t) {
  switch (t) {
    case DType::f64: return "f64";
    case DType::f32: return "f32";
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
    case DType::i8: return "i8";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
  }
  return "?";
}

Float16::Float16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x), sign = u >> 16 & 0x8000u;
  const uint32_t magnitude = u & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    bits = uint16_t(sign | 0x7E00u);  // NaN
  } else if (magnitude >= 0x47800000u) {
    bits = uint16_t(sign | 0x7C00u);  // 65536 and above: infinity
  } else if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 lets the f32 unit round at the right bit.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    bits = uint16_t(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000u));
  } else {
    // Rebias the exponent and round to nearest even; a carry out of 65504 gives infinity, as it should.
    bits = uint16_t(sign | ((magnitude - 0x38000000u + 0xFFFu + (magnitude >> 13 & 1u)) >> 13));
  }
}

Float16::operator float() const {
  const uint32_t sign = uint32_t(bits & 0x8000u) << 16, rest = bits & 0x7FFFu;
  if (rest >= 0x7C00u) return std::bit_cast<float>(sign | 0x7F800000u | (rest & 0x3FFu) << 13);
  if (rest < 0x400u) {
    const float magnitude = float(rest) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((rest << 13) + 0x38000000u));
}

}  // namespace rapt
