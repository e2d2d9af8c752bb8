#include <kernels/cpu/gemm_finish.hpp>
#include <kernels/cpu/gemm_kernels.hpp>
#include <kernels/cpu/gemm_multiply.hpp>
#include <rapt/tensor/dtype.hpp>

#include <cmath>

namespace rapt::kernels::cpu {
namespace {

/// Four lanes, which every target of the compiler has.
typedef float Float4 __attribute__((vector_size(16)));
typedef float UnalignedFloat4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t Int4 __attribute__((vector_size(16)));
typedef int32_t UnalignedInt4 __attribute__((vector_size(16), aligned(4), may_alias));

struct MulAdd {
  using Acc = Float4;
  using Vec = Float4;
  static constexpr int kLanes = 4;
  static Acc zero() { return Acc{}; }
  static Acc load_acc(const char* p) { return *reinterpret_cast<const UnalignedFloat4*>(p); }
  static void store_acc(char* p, Acc v) { *reinterpret_cast<UnalignedFloat4*>(p) = v; }
  static Acc add(Acc a, Acc b) { return a + b; }
  static Vec load_b(const char* p) { return load_acc(p); }
  static Vec broadcast_a(const char* p) { return Vec{} + *reinterpret_cast<const float*>(p); }
  static Acc dot(Acc sum, Vec a, Vec b) { return sum + a * b; }
  template <int kRows, int kVectors>
  static void compensate(Acc (&)[kRows][kVectors], const char*) {}
};

/// Units of four s8: the products of the four bytes, one after the other, each sign-extended in place.
struct ByteDot {
  using Acc = Int4;
  using Vec = Int4;
  static constexpr int kLanes = 4;
  static Acc zero() { return Acc{}; }
  static Acc load_acc(const char* p) { return *reinterpret_cast<const UnalignedInt4*>(p); }
  static void store_acc(char* p, Acc v) { *reinterpret_cast<UnalignedInt4*>(p) = v; }
  static Acc add(Acc a, Acc b) { return a + b; }
  static Vec load_b(const char* p) { return load_acc(p); }
  static Vec broadcast_a(const char* p) { return Vec{} + *reinterpret_cast<const int32_t*>(p); }
  static Acc dot(Acc sum, Vec a, Vec b) {
    for (int i = 0; i < 4; ++i) {
      const int left = 8 * (3 - i);
      sum += (a << left >> 24) * (b << left >> 24);
    }
    return sum;
  }
  template <int kRows, int kVectors>
  static void compensate(Acc (&)[kRows][kVectors], const char*) {}
};

struct Floats {
  float v;
  static constexpr int64_t kLanes = 1;
  static Floats set(float x) { return {x}; }
  static Floats load(const float* p, int64_t) { return {*p}; }
  static void store(float* p, int64_t, Floats x) { *p = x.v; }
  static Floats load_bf16(const uint16_t* p, int64_t) { return {std::bit_cast<float>(uint32_t(*p) << 16)}; }
  static void store_bf16(uint16_t* p, int64_t, Floats x) { *p = BFloat16(x.v).bits; }
  static Floats fma(Floats a, Floats b, Floats c) { return {a.v * b.v + c.v}; }
  static Floats max(Floats a, Floats b) { return {a.v > b.v ? a.v : b.v}; }
  static Floats min(Floats a, Floats b) { return {a.v < b.v ? a.v : b.v}; }
  static Floats abs(Floats a) { return {std::fabs(a.v)}; }
  static Floats floor(Floats a) { return {std::floor(a.v)}; }
  static Floats power_of_two(Floats n) {
    return n.v == n.v ? Floats{std::bit_cast<float>(uint32_t(int32_t(n.v) + 127) << 23)} : n;
  }
  static Floats less_than_zero(Floats x, Floats yes, Floats no) { return x.v < 0 ? yes : no; }
  friend Floats operator+(Floats a, Floats b) { return {a.v + b.v}; }
  friend Floats operator-(Floats a, Floats b) { return {a.v - b.v}; }
  friend Floats operator*(Floats a, Floats b) { return {a.v * b.v}; }
  friend Floats operator/(Floats a, Floats b) { return {a.v / b.v}; }
};

}  // namespace

void finish_portable(const FinishJob& job) { finish_floats<Floats>(job); }

void finish_s32(const FinishJob& job) {
  for (int64_t i = 0; i < job.rows; ++i) {
    const int32_t* sum = static_cast<const int32_t*>(job.sum) + i * job.sum_stride;
    int32_t* c = static_cast<int32_t*>(job.c) + i * job.c_stride;
    for (int64_t j = 0; j < job.columns; ++j) c[j] = job.add_c ? c[j] + sum[j] : sum[j];
  }
}

const GemmKernel kPortableF32 = {.mr = 4,
                                 .nr = 8,
                                 .a_form = Packed::f32,
                                 .b_form = Packed::f32,
                                 .tiles = false,
                                 .unit_multiple = 1,
                                 .k_units = 384,
                                 .m_limit = 512,
                                 .compensated = false,
                                 .multiply = multiply_any_rows<MulAdd, 2, 4>,
                                 .multiply_few = nullptr,
                                 .pack = pack_portable,
                                 .finish = finish_portable,
                                 .begin = nullptr,
                                 .end = nullptr};
const GemmKernel kPortableBf16 = {.mr = 4,
                                  .nr = 8,
                                  .a_form = Packed::rounded_f32,
                                  .b_form = Packed::rounded_f32,
                                  .tiles = false,
                                  .unit_multiple = 1,
                                  .k_units = 384,
                                  .m_limit = 512,
                                  .compensated = false,
                                  .multiply = multiply_any_rows<MulAdd, 2, 4>,
                                  .multiply_few = nullptr,
                                  .pack = pack_portable,
                                  .finish = finish_portable,
                                  .begin = nullptr,
                                  .end = nullptr};
const GemmKernel kPortableInt8 = {.mr = 4,
                                  .nr = 8,
                                  .a_form = Packed::s8,
                                  .b_form = Packed::s8,
                                  .tiles = false,
                                  .unit_multiple = 1,
                                  .k_units = 384,
                                  .m_limit = 512,
                                  .compensated = false,
                                  .multiply = multiply_any_rows<ByteDot, 2, 4>,
                                  .multiply_few = nullptr,
                                  .pack = pack_portable,
                                  .finish = finish_s32,
                                  .begin = nullptr,
                                  .end = nullptr};

}  // namespace rapt::kernels::cpu
