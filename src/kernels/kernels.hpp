#pragma once
// The contract of the kernels: one argument struct an operation, with its formula above it.
//
// Kernels never allocate results and never look at the tape. Floating tensors of one call share a dtype T
// (f64, f32, bf16) except where a line says otherwise; sums are kept in f32 (in f64 for f64). Unless said otherwise
// tensors are contiguous. `accumulate` means result += instead of result =. An elementwise result may be one of its
// own inputs.
//
// Letters: N rows, D features, B batch, T positions, h heads, V vocabulary.

#include <rapt/base/random.hpp>
#include <rapt/kernels/kinds.hpp>
#include <rapt/tensor/tensor.hpp>

#include <string>
#include <vector>

namespace rapt::kernels {

// ---------------------------------------------------------------------------------------------------- matrix products

using rapt::Activation;

/// C = act(A B + bias) + residual, or C += A B.
///   A [.., M, K], B [.., K, N], C [.., M, N]; leading axes are equal batch axes. A and B may be any strided view with
///   one unit stride among their last two axes (so transposes are free); C's last axis has unit stride.
///   dtypes A, B -> C: f64 f64 -> f64; f32 f32 -> f32; bf16 bf16 -> bf16 or f32; f32 bf16 and bf16 f32 -> either
///   (the f32 side is rounded to bf16: a master weight); i8 i8 -> i32.
///   bias [N] (f32, or f64 for f64), residual like C and not C itself. `pre_activation`, like C, receives A B + bias when defined.
struct Gemm {
  static constexpr const char* op = "gemm";
  Tensor a, b, c;
  bool accumulate = false;
  Tensor bias, residual, pre_activation;
  Activation activation = Activation::none;
  /// B is a weight: it stays the same over many calls, so its packed form may be kept until its storage is touched.
  bool b_is_weight = false;
};

// -------------------------------------------------------------------------------------------------------- elementwise

enum class Unary { neg, exp, log, sqrt, square, relu, gelu, gelu_tanh, silu, tanh, sigmoid, softplus };
/// y = f(x), any strides. gelu(x) = x Phi(x); gelu_tanh its tanh approximation; silu(x) = x sigmoid(x).
struct UnaryForward {
  static constexpr const char* op = "unary";
  Unary f;
  Tensor x, y;
};
/// dx (+)= dy f'(x), any strides.
struct UnaryBackward {
  static constexpr const char* op = "unary_backward";
  Unary f;
  Tensor x, dy, dx;
  bool accumulate = false;
};

enum class Binary { add, sub, mul, div };
/// y = alpha (a f b), where a and b broadcast to the shape of y (equal rank; an axis of size 1 is repeated). Any
/// strides. f32 and bf16 may be mixed.
struct BinaryForward {
  static constexpr const char* op = "binary";
  Binary f;
  Tensor a, b, y;
  double alpha = 1;
  bool accumulate = false;
};
/// y (+)= alpha x + beta, any strides; x and y may differ in dtype: also scaling, casting, copying.
struct Affine {
  static constexpr const char* op = "affine";
  Tensor x, y;
  double alpha = 1, beta = 0;
  bool accumulate = false;
};
/// y (+)= alpha sum of x over the axes where y has size 1 (equal rank). Any strides. The order of summation is fixed.
struct Reduce {
  static constexpr const char* op = "reduce";
  Tensor x, y;
  double alpha = 1;
  bool accumulate = false;
};
/// y_n = x_n m_n / (1 - p), with m_n = [bits16(n) >= round(65536 p)]; its backward is itself. Contiguous, any shape.
struct Dropout {
  static constexpr const char* op = "dropout";
  Tensor x, y;
  float p = 0;
  Philox random;
  bool accumulate = false;
};
/// The gated feed-forward: y = silu(g) * u. x [N, 2D] holds g then u in each row; y [N, D].
struct SwigluForward {
  static constexpr const char* op = "swiglu";
  Tensor x, y;
};
/// dx [N, 2D] (+)= the gradient of the above for dy [N, D].
struct SwigluBackward {
  static constexpr const char* op = "swiglu_backward";
  Tensor x, dy, dx;
  bool accumulate = false;
};
/// Rotary positions on x [B, T, h, D] (strided, last axis unit): pairs (x_i, x_{i+D/2}) are turned by the angle
/// pos * base^(-2i/D), pos = offset + t. `inverse` turns back, which is the backward pass.
struct Rotary {
  static constexpr const char* op = "rotary";
  Tensor x, y;
  double base = 10000;
  int64_t offset = 0;
  bool inverse = false;
  bool accumulate = false;
  /// Pairs (x_2i, x_2i+1) instead of halves: the layout of the original paper and of llama2.c.
  bool interleaved = false;
};

// --------------------------------------------------------------------------------------------------- rows and lookups

/// y_n = scale W[id_n] + P[n mod T].   ids i32 [N], W [V, D] f32 (f64), P [>= T, D] like W or undefined, y [N, D].
/// Ids are checked before: 0 <= id < V.
struct EmbeddingForward {
  static constexpr const char* op = "embedding";
  Tensor ids, weight, positions, y;
  int64_t length = 1;           ///< T
  int64_t position_offset = 0;  ///< P[offset + n mod T]
  double scale = 1;
};
/// dW[id_n] += scale dy_n; dW [V, D] f32 (f64). Not accumulating means that dW is cleared first.
struct EmbeddingBackward {
  static constexpr const char* op = "embedding_backward";
  Tensor ids, dy, dweight;
  double scale = 1;
  bool accumulate = false;
};

using rapt::NormKind;
/// s = x + dropout(r);  y = (s - mean) rstd gain + bias  (layer), y = s rstd gain (rms);
///   rstd = 1 / sqrt(var + eps), var = mean of squares (about the mean for layer).
///   x, r, s, y [N, D]; gain, bias [D] f32 (f64), bias may be undefined; mean, rstd [N] f32 (f64), kept for backward.
///   `mean` is neither written nor read for rms. r undefined: s is x, and `sum` is not written. Dropout mask as in
///   Dropout, index n D + d.
struct NormForward {
  static constexpr const char* op = "norm";
  NormKind kind = NormKind::layer;
  Tensor x, residual, sum, gain, bias, y, mean, rstd;
  double eps = 1e-5;
  float p = 0;
  Philox random;
};
/// Given s, dy and the gradient `dsum` that reaches s by other ways (may be undefined):
///   ds = dsum + d norm(s)/ds^T dy;  dx (+)= ds;  dr (+)= dropout(ds);  dgain (+)= sum dy xhat;  dbias (+)= sum dy.
///   Each of dx, dresidual, dgain, dbias may be undefined. The order of the sums over rows is fixed.
struct NormBackward {
  static constexpr const char* op = "norm_backward";
  NormKind kind = NormKind::layer;
  Tensor sum, gain, mean, rstd, dy, dsum;
  Tensor dx, dresidual, dgain, dbias;
  bool accumulate_dx = false, accumulate_dresidual = false, accumulate_dgain = false, accumulate_dbias = false;
  float p = 0;
  Philox random;
};

/// y_ij = exp(x_ij - max_i) / sum_j exp(x_ij - max_i) over the columns j < length_i; 0 elsewhere and in rows of length 0.
///   x, y [N, D]. lengths i32 [N / repeat] or undefined: row n has length lengths[n / repeat].
struct SoftmaxForward {
  static constexpr const char* op = "softmax";
  Tensor x, y, lengths;
  int64_t repeat = 1;
  bool log = false;  ///< log-softmax instead; no lengths then
};
/// dx (+)= y (dy - sum_j y_j dy_j)   (log: dy - exp(y) sum_j dy_j).
struct SoftmaxBackward {
  static constexpr const char* op = "softmax_backward";
  Tensor y, dy, dx;
  bool log = false;
  bool accumulate = false;
};
/// One chunk of softmax cross-entropy with label smoothing e over logits z [N, V] (f32, f64 or bf16):
///   loss_n = lse(z_n) - (1 - e) z_n[t_n] - e mean_v z_nv;  0 where t_n == ignore.
///   dlogits (may be z itself, or undefined) = scale (softmax(z_n) - (1 - e) onehot(t_n) - e / V), 0 where ignored.
///   targets i32 [N], loss [N] f32 (f64); `hits` i32 [N] or undefined: 1 where argmax z_n == t_n.
struct CrossEntropy {
  static constexpr const char* op = "cross_entropy";
  Tensor logits, targets, loss, dlogits, hits;
  double smoothing = 0, scale = 1;
  int32_t ignore = -1;
};
/// y_n = x[ids_n]; x [V, D], ids i32 [N], y [N, D]. Backward: dx[ids_n] += dy_n is EmbeddingBackward of the same dtype.
struct GatherRows {
  static constexpr const char* op = "gather_rows";
  Tensor x, ids, y;
};

// ----------------------------------------------------------------------------------------------------------- attention

/// Who may look at whom: key j is visible to query i of batch b iff j < lengths_b, and, when causal,
/// j <= i + (Tk - Tq) (the queries are the last Tq positions).
struct AttentionMask {
  Tensor lengths;  ///< i32 [B] or undefined
  bool causal = false;
  Tensor slopes;  ///< ALiBi: f32 [h] or undefined; adds -slope_h |i + Tk - Tq - j|
};
/// O = dropout(softmax(scale Q K^T + mask)) V, head by head; rows with no visible key give 0.
///   q [B, Tq, h, dk], k [B, Tk, g, dk], v [B, Tk, g, dv], o [B, Tq, h, dv]: strided, last axis unit; head i reads
///   key head i / (h / g). lse [B, h, Tq] f32 (f64): log sum exp of each row (-inf with no visible key).
///   `weights` [B, h, Tq, Tk] f32 (f64), or undefined: the probe, softmax before dropout.
///   Dropout index ((b h + head) Tq + i) Tk + j. Memory stays linear in Tq + Tk when `weights` is undefined.
struct AttentionForward {
  static constexpr const char* op = "attention";
  Tensor q, k, v, o, lse, weights;
  AttentionMask mask;
  double scale = 1;
  float p = 0;
  Philox random;
};
/// dv (+)= P~^T do;  dS = P * (mask/(1-p) do V^T - rowsum(do * o));  dq (+)= scale dS K;  dk (+)= scale dS^T Q.
struct AttentionBackward {
  static constexpr const char* op = "attention_backward";
  Tensor q, k, v, o, lse, d_o;
  Tensor dq, dk, dv;
  bool accumulate_dq = false, accumulate_dk = false, accumulate_dv = false;
  AttentionMask mask;
  double scale = 1;
  float p = 0;
  Philox random;
};
/// Additive (Bahdanau) scores: e_btj = sum_a v_a tanh(q_bta + k_bja).
///   q [B, Tq, A], k [B, Tk, A], v [A] (f32, f64), e [B, Tq, Tk].
struct AdditiveScores {
  static constexpr const char* op = "additive_scores";
  Tensor q, k, v, e;
};
/// Recomputes the tanh: dq, dk, dv (+)=; each may be undefined.
struct AdditiveScoresBackward {
  static constexpr const char* op = "additive_scores_backward";
  Tensor q, k, v, de, dq, dk, dv;
  bool accumulate_dq = false, accumulate_dk = false, accumulate_dv = false;
};

// ---------------------------------------------------------------------------------------------------- recurrent cells

/// One step of a recurrent cell for B rows, after the two matrix products. x-side gates gx [B, G] (strided rows, last
/// axis unit) and h-side gates gh [B, G] arrive with their biases; H = hidden size.
///   rnn  (G =  H): h' = tanh(gx + gh)
///   lstm (G = 4H): i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of gx + gh;  c' = f c + i g;  h' = o tanh(c')
///   gru  (G = 3H): r, z = sigmoid(gx + gh);  n = tanh(gx_n + r gh_n);  h' = (1 - z) n + z h
/// `gates` [B, G] keeps the activated gates for the backward pass. Rows b with step >= lengths_b keep h and c, and their
/// gates are not written (lengths i32 [B] or undefined). c, c_next, dc_next and dc are for lstm alone.
using rapt::Cell;
struct CellForward {
  static constexpr const char* op = "cell";
  Cell cell;
  Tensor gx, gh, h, c, gates, h_next, c_next;
  Tensor lengths;
  int64_t step = 0;
};
/// dh_next, dc_next (undefined: zero) -> dgx (strided like gx), dgh [B, G], dh, dc [B, H] (the part that does not pass
/// through gh).
/// All results are written, not accumulated, except dgx as told. Rows that have ended pass dh_next and dc_next on to dh
/// and dc; their gate gradients are 0.
struct CellBackward {
  static constexpr const char* op = "cell_backward";
  Cell cell;
  Tensor gates, gh, h, c, c_next, dh_next, dc_next;
  Tensor dgx, dgh, dh, dc;
  Tensor lengths;
  int64_t step = 0;
  bool accumulate_dgx = false;
};

// ------------------------------------------------------------------------------------------- optimisers, flat buffers

/// Sum of squares of x [n] in f64, into y [1] f64; infinities and NaN propagate. The order of summation is fixed.
struct SumSquares {
  static constexpr const char* op = "sum_squares";
  Tensor x, y;
};
/// g' = clip g;  m = b1 m + (1 - b1) g';  v = b2 v + (1 - b2) g'^2;
/// w -= lr (m / c1) / (sqrt(v / c2) + eps) + lr decay w,  with c = 1 - b^t. f32 (f64), flat [n].
/// Adam's L2 form adds decay w to g' instead when `decoupled` is false.
struct Adam {
  static constexpr const char* op = "adam";
  Tensor w, g, m, v;
  double lr, beta1, beta2, eps, decay;
  double correction1, correction2;  ///< c1, c2
  double clip = 1;                  ///< factor on g
  bool decoupled = true;
};
/// v = momentum v + (clip g + decay w);  w -= lr v  (nesterov: lr (g' + momentum v)).
struct Sgd {
  static constexpr const char* op = "sgd";
  Tensor w, g, v;  ///< v undefined when momentum is 0
  double lr, momentum, decay;
  double clip = 1;
  bool nesterov = false;
};

// ------------------------------------------------------------------------------------------------------------ dispatch

/// One way to compute an operation.
template <class Args>
struct Implementation {
  const char* name;
  bool (*available)();            ///< can this machine run it at all?
  bool (*supports)(const Args&);  ///< does it take these arguments?
  void (*run)(const Args&);
};

/// All implementations of an operation, best first, the reference last (register.cpp).
template <class Args>
const std::vector<Implementation<Args>>& implementations();

/// Runs the first implementation that is available and supports the arguments. RAPT_KERNEL=op:name[,op:name] puts one
/// first: it then runs wherever it supports the arguments; naming one that is not available here throws KernelError.
template <class Args>
void launch(const Args& args);

/// Which implementation `launch` would run, for tests and benchmarks.
template <class Args>
const Implementation<Args>& chosen(const Args& args);

/// Time spent in each operation since `start_profile`, by the threads that launch; for benchmarks.
struct ProfileRow {
  std::string op, implementation;
  int64_t calls = 0;
  double seconds = 0, flops = 0;
};
void start_profile();
std::vector<ProfileRow> stop_profile();

/// Forces implementations as RAPT_KERNEL does ("gemm:reference,norm:reference"; "" clears); for tests and benchmarks.
/// Throws KernelError when an operation or implementation does not exist.
void force_implementations(const std::string& spec);

/// Every operation with its implementations, for the support matrix.
struct TableRow {
  struct Entry {
    std::string name;
    bool available;
  };
  std::string op;
  std::vector<Entry> implementations;
};
std::vector<TableRow> kernel_table();

}  // namespace rapt::kernels
