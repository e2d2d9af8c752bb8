#pragma once
// What passes between the blocked driver and the files that are compiled for one instruction set. Plain data and
// function pointers only: an inline function here would be compiled with wide instructions in those files, and the
// linker could pick that copy for the whole program.
#include <cstdint>

namespace rapt::kernels::cpu {

enum class Element : uint8_t { f32, bf16, s8, s32 };

/// How a packed operand stores its elements. `rounded_f32` is bf16 precision in f32, for processors without bf16
/// arithmetic; `u8` is s8 + 128, the left operand of the VNNI instruction.
enum class Packed : uint8_t { f32, rounded_f32, bf16, s8, u8 };

/// Packs `lines` rows of A (or columns of B), each `depth` elements along k, into units of four bytes (1 f32, 2 bf16 or
/// 4 bytes of int8, neighbours along k):
///   interleaved  packed[unit][line], `width` lines;      tiles  packed[unit / 16][line][unit % 16], 16 lines.
/// One of the strides (in elements) is 1. Missing lines and units up to `width` and `padded_units` become zero.
struct PackJob {
  const void* source;
  Element type;
  int64_t line_stride, depth_stride;
  int64_t lines, depth;
  void* packed;
  Packed form;
  bool tiles;
  int64_t width, padded_units;
  int32_t* compensation;  ///< s8 only, or null: receives -128 times the sum of each line, `width` values
};

/// C[rows, nr] (+)= A B over `units` units of k; C is f32 or s32, the full width is written.
struct MultiplyJob {
  const void* a;
  const void* b;
  int64_t units;
  int64_t rows;
  void* c;
  int64_t c_stride;  ///< elements
  bool accumulate;
};

/// What Activation of kernels.hpp says, in the same order.
enum class Curve : uint8_t { none, relu, gelu, gelu_tanh, silu, tanh, sigmoid };

/// z = sum + bias (+ C when add_c); pre = z; C = curve(z) + residual. Strides in elements; pre and residual are of the
/// type of C. Absent parts are null.
struct FinishJob {
  const void* sum;
  int64_t sum_stride;
  int64_t rows, columns;
  void* c;
  int64_t c_stride;
  Element c_type;
  bool add_c;
  const float* bias;
  const void* residual;
  int64_t residual_stride;
  void* pre;
  int64_t pre_stride;
  Curve curve;
};

/// One micro-kernel with the layouts that it reads.
struct GemmKernel {
  int64_t mr, nr;  ///< rows and columns of the tile that it keeps in registers
  Packed a_form, b_form;
  bool tiles;             ///< A and B in tiles of 16 x 64 bytes; whole tiles of C are written then
  int64_t unit_multiple;  ///< units along k are padded to this
  int64_t k_units;        ///< at most so many units of k are summed at a time; the order of summation follows from it
  int64_t m_limit;        ///< and so many rows of A are kept in the second cache
  bool compensated;       ///< packed B ends in the compensation of u8
  void (*multiply)(const MultiplyJob&);
  void (*multiply_few)(const MultiplyJob&);  ///< at most kFewRows rows, for memory-bound products; may be null
  void (*pack)(const PackJob&);
  void (*finish)(const FinishJob&);
  void (*begin)();  ///< around the work of a thread; may be null
  void (*end)();
};
constexpr int64_t kFewRows = 4;

}  // namespace rapt::kernels::cpu
