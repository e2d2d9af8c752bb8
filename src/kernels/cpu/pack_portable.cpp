#include <kernels/cpu/gemm_kernels.hpp>
#include <rapt/tensor/dtype.hpp>

#include <cstring>

namespace rapt::kernels::cpu {
namespace {

float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

/// One element in its packed form.
template <class T, class To>
To packed_element(T x) {
  if constexpr (std::is_same_v<T, uint16_t> && std::is_same_v<To, float>)
    return bf16_to_float(x);
  else if constexpr (std::is_same_v<T, float> && std::is_same_v<To, uint16_t>)
    return BFloat16(x).bits;
  else
    return To(x);
}
struct Identity {
  template <class T>
  T operator()(T x) const {
    return x;
  }
};

/// packed[unit][line][element of the unit]; or by tiles of 16 units.
template <class T, class To, class Change = Identity>
void pack_as(const PackJob& job, Change change = {}) {
  constexpr int64_t group = 4 / int64_t(sizeof(To));
  To* packed = static_cast<To*>(job.packed);
  std::memset(packed, 0, size_t(job.width * job.padded_units) * 4);
  const T* source = static_cast<const T*>(job.source);
  for (int64_t k = 0; k < job.depth; ++k) {
    const int64_t unit = k / group;
    To* to = packed + k % group + group * (job.tiles ? unit / 16 * 16 * job.width + unit % 16 : unit * job.width);
    const int64_t step = group * (job.tiles ? 16 : 1);
    const T* from = source + k * job.depth_stride;
    for (int64_t l = 0; l < job.lines; ++l) to[l * step] = change(packed_element<T, To>(from[l * job.line_stride]));
  }
}

}  // namespace

void pack_portable(const PackJob& job) {
  const bool bf16 = job.type == Element::bf16;
  const auto round = [](float x) { return float(BFloat16(x)); };
  switch (job.form) {
    case Packed::f32: return pack_as<float, float>(job);
    case Packed::rounded_f32: return bf16 ? pack_as<uint16_t, float>(job) : pack_as<float, float>(job, round);
    case Packed::bf16: return bf16 ? pack_as<uint16_t, uint16_t>(job) : pack_as<float, uint16_t>(job);
    case Packed::s8: pack_as<int8_t, int8_t>(job); break;
    case Packed::u8: return pack_as<int8_t, uint8_t>(job, [](uint8_t x) { return uint8_t(x ^ 0x80); });
  }
  if (!job.compensation) return;
  std::memset(job.compensation, 0, size_t(job.width) * sizeof(int32_t));
  const int8_t* packed = static_cast<const int8_t*>(job.packed);
  for (int64_t i = 0; i < job.padded_units * job.width * 4; ++i) job.compensation[i / 4 % job.width] -= 128 * packed[i];
}

}  // namespace rapt::kernels::cpu
