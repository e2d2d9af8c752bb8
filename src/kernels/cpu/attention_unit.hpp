#pragma once
// What an instruction set must do for streaming attention: multiply, pack and exponentiate small blocks. The drivers
// (attention_forward.cpp, attention_backward.cpp) do the rest through this table of functions. Plain data only: files
// compiled for wider instruction sets include this header.
//
// Operands. An A operand lies row by row. A B operand of k rows and n columns lies row by row (f32 units), or as pairs
// of rows, element (k, n) at [k / 2][n][k mod 2] (bf16 units): what dot-product instructions and tiles read.
#include <cstdint>

namespace rapt {
struct Philox;
}

namespace rapt::kernels::cpu::attention {

static constexpr int round_up(int x, int multiple) { return (x + multiple - 1) / multiple * multiple; }

constexpr int kTile = 16;     ///< rows and columns of blocks are padded to this
constexpr int kPadding = 32;  ///< and what may become the inner dimension of a product to this
constexpr int kLanes = 16;    ///< a running row sum is kept as this many partial sums

/// Rows of an input or output tensor: `rows` x `columns` elements, unit stride in a row.
struct Rows {
  void* data;
  int64_t stride;  ///< elements
  int rows, columns;
};

/// C (+)= A B, with m rows, n columns (a multiple of kTile), inner dimension k (a multiple of Unit::inner_multiple).
/// Units may read and write up to round_up(m, kTile) rows. a_step is the distance of neighbours in a row of A: 1 for
/// bf16 units.
struct Product {
  const void* a;
  int64_t a_stride, a_step;
  const void* b;
  int64_t b_stride;  ///< elements of one row of n
  float* c;
  int64_t c_stride;
  int m, n, k;
  bool accumulate;
};

/// Scores of some queries (rows) and keys (columns) become unnormalised weights P = 2^(factor s - maximum), and the
/// running maximum, sum and output of each row are brought to the new maximum.
struct SoftmaxBlock {
  const float* s;
  int64_t s_stride;
  void* p;  ///< A operand, 0 beyond the visible keys up to `columns`
  int64_t p_stride;
  int rows, columns;   ///< rows <= kMaxSoftmaxRows
  const int* visible;  ///< a row: how many of its columns count
  float factor;        ///< scale / ln 2; positive
  float* maximum;      ///< a row
  float* sum;          ///< kLanes a row
  float* o;            ///< rescaled unless `first`
  int64_t o_stride;
  int o_columns;
  bool first;
  const uint8_t* keep;  ///< dropout: kKeepBytes a row, a bit a column; or null
};
constexpr int kKeepBytes = 16;
constexpr int kMaxSoftmaxRows = 64;

/// Scores of some keys (rows) and queries (columns), with dP = do V^T, become
///   P~ = keep P,  dS = P (keep dP - delta),  P = 2^(factor s - lse2).
struct GradientBlock {
  const float* s;
  const float* dp;
  int64_t stride;
  int keys, queries;   ///< queries: a multiple of kTile
  int padded_queries;  ///< P~ and dS have this many columns; those beyond `queries` are 0
  int diagonal;        ///< row r sees the columns >= r + diagonal
  float factor;
  const float* lse2;    ///< a query; log2 sum exp, very large where nothing is to be seen
  const float* delta;   ///< a query
  const uint8_t* keep;  ///< kKeepBytes a row, a bit a column; or null
  float keep_scale;     ///< 1 / (1 - p)
  void* p;              ///< A operand
  void* ds;             ///< A operand
  int64_t p_stride;     ///< of p and ds
  void* ds_transposed;  ///< A operand [queries, keys], 0 in the columns up to the next multiple of kPadding; not
                        ///< filled by units that take any a_step
  int64_t transposed_stride;
};

struct Unit {
  int element_size;    ///< of packed operands: 4 or 2
  int inner_multiple;  ///< of Product::k
  bool strided_a;      ///< takes any Product::a_step
  void (*enter)();     ///< around all work of a thread
  void (*leave)();
  void (*multiply)(const Product&);
  /// A operand: `padded_rows` rows of `stride`, zero outside of `from`.
  void (*pack_rows)(const Rows& from, void* to, int64_t stride, int padded_rows);
  /// B operand of from's rows: `padded_rows` rows of `stride` columns, zero outside.
  void (*pack_b)(const Rows& from, void* to, int64_t stride, int padded_rows);
  /// B operand of from's transpose: `padded_columns` rows of `stride` columns, zero outside.
  void (*pack_b_transposed)(const Rows& from, void* to, int64_t stride, int padded_columns);
  void (*softmax)(const SoftmaxBlock&);
  void (*gradient)(const GradientBlock&);
  /// to[r, c] (+)= from[r, c] factor[r * factor_step]; a factor of 0 gives 0 whatever `from` holds.
  void (*store)(const float* from, int64_t stride, const float* factor, int factor_step, const Rows& to,
                bool accumulate);
};

/// What is the same for every unit, because it is a small part of the work. Rows are f32 or bf16.
struct Common {
  /// s[r, c] -= slope |distance + row_step r + column_step c|
  void (*add_bias)(float* s, int64_t stride, int rows, int columns, float slope, float distance, float row_step,
                   float column_step);
  /// lse[r] = maximum ln 2 + log(sum), -inf for a sum of 0; reciprocal[r] = keep_scale / sum, 0 for a sum of 0.
  void (*finish)(const float* maximum, const float* sum, int rows, float keep_scale, float* lse, float* reciprocal);
  /// delta[r] = sum_c a[r, c] b[r, c]
  void (*row_dots)(const Rows& a, const Rows& b, float* delta);
  /// s[r, j] = q[r] . k[j], for rows of q in f32 that are 0 beyond k's columns; s up to a multiple of kTile columns.
  void (*dot_rows)(const float* q, int64_t q_stride, int rows, const Rows& k, float* s, int64_t s_stride);
  /// o[r] (+)= sum_j p[r, j] v[j]
  void (*add_rows)(const float* p, int64_t p_stride, int rows, const Rows& v, float* o, int64_t o_stride,
                   bool accumulate);
  /// w[c] = 2^(factor s[c] - lse2) for c < visible, 0 up to columns.
  void (*weights)(const float* s, int visible, int columns, float factor, float lse2, float* w);
  /// bit n of keep = bits16(128 first_block + n) >= threshold, for n < 128 blocks.
  void (*dropout)(const Philox& random, uint64_t first_block, int blocks, uint32_t threshold, uint8_t* keep);
};

/// f32 arithmetic on the widest vectors of this machine, for rows of f32 or of bf16.
const Unit& vector_unit(bool bf16_rows);
const Common& common(bool bf16_rows);
/// bf16 products with f32 sums; null where the compiler's target has no such instructions.
const Unit* avx512bf16_unit();
const Unit* amx_unit();

}  // namespace rapt::kernels::cpu::attention
