#pragma once
#include <rapt/nn/context.hpp>
#include <rapt/nn/parameters.hpp>
#include <rapt/nn/positions.hpp>
#include <rapt/ops/ops.hpp>

namespace rapt::nn {

/// A vector for every token of the vocabulary.
struct TokenTable {
  Tensor W;  // [V, d]
  TokenTable(const Scope& scope, int64_t vocabulary, int64_t d, double deviation)
      : W(scope.parameter("weight", {vocabulary, d}, Init::normal(deviation))) {}
};

/// Token ids are i32 [B, T] with at least one sequence of at least one token; throws DTypeError or ShapeError.
void require_tokens(const Tensor& tokens);

/// x = dropout(scale E[tokens] + P[positions])                                       [Vaswani 2017, 3.4, 3.5]
struct Embedding {
  Tensor E;  // [V, d]; may be the table of another embedding or of the output projection
  Tensor P;  // [length, d] or undefined
  double scale;
  float p;

  Embedding(Tensor table, Tensor positions, double scale, float p)
      : E(std::move(table)), P(std::move(positions)), scale(scale), p(p) {}

  Tensor operator()(const Tensor& tokens, Context& ctx) const {
    require_tokens(tokens);
    const Tensor x =
        embedding(tokens, E, {.scale = scale, .positions = P, .offset = 0, .dtype = ctx.dtype});  // [B, T, d]
    return dropout(x, ctx.dropout(p), ctx.next_random());
  }
};

/// The table that is added to embeddings for a kind of position: fixed, learned, or none.
inline Tensor position_table(const Scope& scope, Position kind, int64_t length, int64_t d, DType dtype) {
  switch (kind) {
    case Position::sinusoidal: return sinusoidal_positions(length, d, dtype);
    case Position::learned: return scope.parameter("weight", {length, d}, Init::normal(0.02));
    case Position::none:
    case Position::rotary:
    case Position::alibi: break;
  }
  return {};
}

}  // namespace rapt::nn
