#pragma once
// The differentiable primitives. Each computes at once and leaves one node on the tape.
//
// Shapes: B batch, T positions, D features, h heads, V vocabulary; `..` any leading axes. Activations are f64, f32 or
// bf16; weights, gains and biases are f32 (f64 when the activations are). Ids and lengths are i32.
// Views (view, transpose, narrow, select) are methods of Tensor and need no operation.

#include <rapt/base/random.hpp>
#include <rapt/kernels/kinds.hpp>
#include <rapt/tensor/tensor.hpp>

#include <utility>
#include <vector>

namespace rapt {

// --------------------------------------------------------------------------------------------------- matrix products

/// y = act(x W^T + b);  x [.., K], W [N, K], b [N] or undefined, y [.., N].
Tensor linear(const Tensor& x, const Tensor& W, const Tensor& b = {}, Activation act = Activation::none);

/// y = a b;  a [.., M, K], b [.., K, N] with equal leading axes, y [.., M, N].
Tensor matmul(const Tensor& a, const Tensor& b);

// -------------------------------------------------------------------------------------------------------- elementwise

Tensor neg(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor square(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor gelu(const Tensor& x);       ///< x Phi(x)
Tensor gelu_tanh(const Tensor& x);  ///< the tanh approximation of GPT-2
Tensor silu(const Tensor& x);       ///< x sigmoid(x)
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor softplus(const Tensor& x);  ///< log(1 + e^x)

/// Shapes are aligned at the right; an axis of size 1 repeats.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor affine(const Tensor& x, double alpha, double beta = 0);  ///< alpha x + beta

/// y = x m / (1 - p), m = 0 with probability p (in steps of 1/65536).
Tensor dropout(const Tensor& x, float p, const Philox& random);

/// silu(g) * u for x [.., 2D] = (g, u): the gate of SwiGLU.
Tensor swiglu(const Tensor& x);

/// Turns the pairs (x_i, x_{i+D/2}) (interleaved: (x_2i, x_2i+1)) of x [B, T, h, D] by (offset + t) base^(-2i/D).
Tensor rotary(const Tensor& x, double base = 10000, int64_t offset = 0, bool interleaved = false);

// ------------------------------------------------------------------------------------------------- shape and reduction

Tensor contiguous(const Tensor& x);
Tensor cast(const Tensor& x, DType dtype);
Tensor concat(const std::vector<Tensor>& parts, int axis);
Tensor stack(const std::vector<Tensor>& parts, int axis);  ///< concat along a new axis
Tensor sum(const Tensor& x);                               ///< one number, shape []
Tensor mean(const Tensor& x);
Tensor sum(const Tensor& x, int axis);  ///< keeps the axis with size 1

// ---------------------------------------------------------------------------------------------------- rows and lookups

/// y = scale W[ids] + positions[offset + t];  ids [.., T], W [V, D], positions [>= offset + T, D] or undefined,
/// y [.., T, D] of `dtype`. An id outside [0, V) throws IndexError.
struct EmbeddingOptions {
  double scale = 1;
  Tensor positions{};
  int64_t offset = 0;
  DType dtype = DType::f32;
};
Tensor embedding(const Tensor& ids, const Tensor& W, const EmbeddingOptions& options);

/// y_n = x[ids_n];  x [V, D], ids [N].
Tensor gather_rows(const Tensor& x, const Tensor& ids);

struct NormOptions {
  NormKind kind = NormKind::layer;
  double eps = 1e-5;
};
/// Over the last axis: layer (x - mean) / sqrt(var + eps) gain + bias; rms x / sqrt(mean x^2 + eps) gain.
Tensor norm(const Tensor& x, const Tensor& gain, const Tensor& bias, const NormOptions& options);

/// sum = x + dropout(r);  y = norm(sum). The "Add & Norm" of the paper in one pass.
struct AddNorm {
  Tensor sum, y;
};
AddNorm add_norm(const Tensor& x, const Tensor& r, const Tensor& gain, const Tensor& bias, const NormOptions& options,
                 float p = 0, const Philox& random = {});

/// Over the last axis. `lengths` [N'] or undefined: row n of [N, D] sees its first lengths[n / (N / N')] columns, the
/// rest and rows of length 0 are exactly 0.
Tensor softmax(const Tensor& x, const Tensor& lengths = {});
Tensor log_softmax(const Tensor& x);

// ------------------------------------------------------------------------------------------------------------- losses

struct CrossEntropyOptions {
  double smoothing = 0;    ///< label smoothing: (1 - e) onehot + e / V
  int32_t ignore = -1;     ///< targets that do not count (padding)
  int64_t chunk_rows = 0;  ///< rows of logits held at a time; 0 chooses
  double normaliser = 0;   ///< the sum is divided by this; 0: by the number of targets that count
  Tensor* hits = nullptr;  ///< when set, receives i32 [N]: 1 where the largest logit is the target
};
/// sum_n lse(z_n) - (1 - e) z_n[t_n] - e mean(z_n), divided by the normaliser; logits z [.., V], targets t [..].
/// One number, f32 (f64).
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {});
/// The same over logits x W^T + b, which are never held whole: x [.., D], W [V, D], b [V] or undefined.
Tensor projected_cross_entropy(const Tensor& x, const Tensor& W, const Tensor& b, const Tensor& targets,
                               const CrossEntropyOptions& options = {});
/// Mean of softplus(z) - z y over all elements: z logits, y in [0, 1].
Tensor binary_cross_entropy(const Tensor& logits, const Tensor& y);
Tensor mean_squared_error(const Tensor& x, const Tensor& y);

// ---------------------------------------------------------------------------------------------------------- attention

struct AttentionOptions {
  Tensor lengths{};     ///< [B]: keys from lengths_b on are padding; undefined: none is
  bool causal = false;  ///< query i sees keys up to i + (Tk - Tq)
  Tensor alibi{};       ///< [h] slopes or undefined: adds -slope |distance|
  double scale = 0;     ///< 0: 1 / sqrt(d_k)
  float p = 0;          ///< dropout on the weights
  Philox random{};
  Tensor* weights = nullptr;  ///< when set, receives softmax(..) [B, h, Tq, Tk]
};
/// softmax(scale Q K^T + mask) V for every head;  Q [B, Tq, h, d_k], K [B, Tk, g, d_k], V [B, Tk, g, d_v],
/// h a multiple of g; result [B, Tq, h, d_v]. Memory is linear in Tq and Tk. A row that sees no key is 0.
Tensor attention(const Tensor& Q, const Tensor& K, const Tensor& V, const AttentionOptions& options = {});

/// e_ij = v . tanh(q_i + k_j);  q [B, Tq, A], k [B, Tk, A], v [A], result [B, Tq, Tk].
Tensor additive_scores(const Tensor& q, const Tensor& k, const Tensor& v);

// ----------------------------------------------------------------------------------------------------- recurrent cells

struct CellState {
  Tensor h, c;  ///< [B, H]; c only for the LSTM
};
/// One step after both matrix products: gx and gh [B, G] are the input and hidden sides of the gates with their biases.
///   rnn  (G =  H)  h' = tanh(gx + gh)
///   lstm (G = 4H)  i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of gx + gh;  c' = f c + i g;  h' = o tanh(c')
///   gru  (G = 3H)  r, z = sigmoid(gx + gh);  n = tanh(gx_n + r gh_n);  h' = (1 - z) n + z h
/// Rows with step >= lengths_b keep their state.
CellState cell_step(Cell cell, const Tensor& gx, const Tensor& gh, const CellState& state, const Tensor& lengths = {},
                    int64_t step = 0);

}  // namespace rapt
