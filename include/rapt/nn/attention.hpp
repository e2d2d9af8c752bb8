#pragma once
#include <rapt/nn/context.hpp>
#include <rapt/nn/linear.hpp>
#include <rapt/nn/positions.hpp>

namespace rapt::nn {

/// Which keys a query may see: none from lengths_b on (padding), and none after itself (causal).
struct Mask {
  Tensor lengths;  ///< i32 [B] or undefined
  bool causal = false;
};

inline Tensor split_heads(const Tensor& x, int64_t h) { return x.view({x.size(0), x.size(1), h, x.size(2) / h}); }
inline Tensor join_heads(const Tensor& x) { return x.view({x.size(0), x.size(1), x.size(2) * x.size(3)}); }

/// The shape of one attention block.
struct AttentionShape {
  int64_t d_model = 512;
  int64_t h = 8;                       ///< heads
  int64_t g = 0;                       ///< key and value heads, shared by h / g query heads each; 0: h
  int64_t d_k = 0, d_v = 0;            ///< of one head; 0: d_model / h
  float p = 0;                         ///< dropout on the weights
  Position position = Position::none;  ///< rotary and alibi act here
  double rotary_base = 10000;
  bool rotary_interleaved = false;
  bool scaled = true;  ///< divide the scores by sqrt(d_k)
  Linear::Options linear{};

  AttentionShape resolved() const;  ///< zeros replaced by their meaning; throws ConfigError when sizes do not divide
};

/// softmax(Q K^T / sqrt(d_k)) V with everything that a block brings along: positions, mask, dropout, probe.
struct ScaledDotProduct {
  AttentionShape shape;
  Tensor slopes;      // ALiBi
  std::string where;  // for the probe

  ScaledDotProduct(const Scope& scope, const AttentionShape& shape);
  Tensor operator()(Tensor Q, Tensor K, const Tensor& V, const Mask& mask, Context& ctx) const;  // [B, Tq, h, d_v]
};

/// MultiHead(Q, K, V) = Concat(head_1 .. head_h) W_O,  head_i = Attention(Q W_Qi, K W_Ki, V W_Vi)   [Vaswani 2017, 3.2.2]
/// The general form: queries, keys and values may come from three places with sizes of their own.
struct MultiHeadAttention {
  Linear W_Q, W_K, W_V, W_O;
  ScaledDotProduct attend;

  MultiHeadAttention(const Scope& scope, int64_t d_query, int64_t d_key, int64_t d_value, const AttentionShape& s)
      : W_Q(scope / "q", d_query, s.resolved().h * s.resolved().d_k, s.linear),
        W_K(scope / "k", d_key, s.resolved().g * s.resolved().d_k, s.linear),
        W_V(scope / "v", d_value, s.resolved().g * s.resolved().d_v, s.linear),
        W_O(scope / "o", s.resolved().h * s.resolved().d_v, s.d_model, s.linear),
        attend(scope, s) {}

  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value, const Mask& mask, Context& ctx) const {
    const AttentionShape& s = attend.shape;
    const Tensor Q = split_heads(W_Q(query), s.h);       // [B, Tq, h, d_k]
    const Tensor K = split_heads(W_K(key), s.g);         // [B, Tk, g, d_k]
    const Tensor V = split_heads(W_V(value), s.g);       // [B, Tk, g, d_v]
    return W_O(join_heads(attend(Q, K, V, mask, ctx)));  // [B, Tq, d_model]
  }
};

/// Queries, keys and values from the same x: the three maps are one product.
struct SelfAttention {
  Linear W_QKV, W_O;
  ScaledDotProduct attend;

  SelfAttention(const Scope& scope, const AttentionShape& s)
      : W_QKV(scope, s.d_model,
              {{"q", s.resolved().h * s.resolved().d_k},
               {"k", s.resolved().g * s.resolved().d_k},
               {"v", s.resolved().g * s.resolved().d_v}},
              s.linear),
        W_O(scope / "o", s.resolved().h * s.resolved().d_v, s.d_model, s.linear),
        attend(scope, s) {}

  Tensor operator()(const Tensor& x, const Mask& mask, Context& ctx) const {
    const AttentionShape& s = attend.shape;
    const int64_t q = s.h * s.d_k, k = s.g * s.d_k, v = s.g * s.d_v;
    const Tensor qkv = W_QKV(x);                                  // [B, T, q + k + v]
    const Tensor Q = split_heads(qkv.narrow(-1, 0, q), s.h);      // [B, T, h, d_k]
    const Tensor K = split_heads(qkv.narrow(-1, q, k), s.g);      // [B, T, g, d_k]
    const Tensor V = split_heads(qkv.narrow(-1, q + k, v), s.g);  // [B, T, g, d_v]
    return W_O(join_heads(attend(Q, K, V, mask, ctx)));           // [B, T, d_model]
  }
};

/// Queries from the decoder, keys and values from the encoder's memory.
struct CrossAttention {
  Linear W_Q, W_KV, W_O;
  ScaledDotProduct attend;

  CrossAttention(const Scope& scope, const AttentionShape& s, int64_t d_memory)
      : W_Q(scope / "q", s.d_model, s.resolved().h * s.resolved().d_k, s.linear),
        W_KV(scope, d_memory, {{"k", s.resolved().g * s.resolved().d_k}, {"v", s.resolved().g * s.resolved().d_v}},
             s.linear),
        W_O(scope / "o", s.resolved().h * s.resolved().d_v, s.d_model, s.linear),
        attend(scope, s) {}

  Tensor operator()(const Tensor& x, const Tensor& memory, const Mask& mask, Context& ctx) const {
    const AttentionShape& s = attend.shape;
    const int64_t k = s.g * s.d_k, v = s.g * s.d_v;
    const Tensor Q = split_heads(W_Q(x), s.h);               // [B, Tq, h, d_k]
    const Tensor kv = W_KV(memory);                          // [B, Tk, k + v]
    const Tensor K = split_heads(kv.narrow(-1, 0, k), s.g);  // [B, Tk, g, d_k]
    const Tensor V = split_heads(kv.narrow(-1, k, v), s.g);  // [B, Tk, g, d_v]
    return W_O(join_heads(attend(Q, K, V, mask, ctx)));      // [B, Tq, d_model]
  }
};

// ------------------------------------------------------------------- attention before the Transformer: scores and contexts

/// A context for each query and the weights that made it.
struct Attended {
  Tensor context;  ///< [B, Tq, d_v]
  Tensor weights;  ///< [B, Tq, Tk]
};
/// softmax over the keys that are there, and the weighted sum of the values: context = softmax(e) V.
Attended weighted_sum(const Tensor& scores, const Tensor& values, const Tensor& lengths);

/// e_ij = q_i . k_j                                                                   [Luong 2015, "dot"]
struct DotScores {
  Tensor operator()(const Tensor& q, const Tensor& k) const { return matmul(q, k.transpose(1, 2)); }
};

/// e_ij = q_i . W k_j                                                                 [Luong 2015, "general"]
struct MultiplicativeScores {
  Linear W;
  MultiplicativeScores(const Scope& scope, int64_t d_q, int64_t d_k) : W(scope / "w", d_k, d_q, {.bias = false}) {}
  Tensor operator()(const Tensor& q, const Tensor& k) const { return matmul(q, W(k).transpose(1, 2)); }
};

/// e_ij = v . tanh(W q_i + U k_j)                                                     [Bahdanau 2015, A.1.2]
struct AdditiveScores {
  Linear W, U;
  Tensor v;
  AdditiveScores(const Scope& scope, int64_t d_q, int64_t d_k, int64_t a)
      : W(scope / "w", d_q, a),
        U(scope / "u", d_k, a, {.bias = false}),
        v(scope.parameter("v", {a}, Init::xavier(a, 1))) {}

  Tensor keys(const Tensor& k) const { return U(k); }  ///< computed once a sentence: [B, Tk, a]
  /// q [B, Tq, d_q] against keys(k)
  Tensor operator()(const Tensor& q, const Tensor& keys) const { return additive_scores(W(q), keys, v); }
};

}  // namespace rapt::nn
