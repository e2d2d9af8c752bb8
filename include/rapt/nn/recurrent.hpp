#pragma once
#include <rapt/nn/context.hpp>
#include <rapt/nn/linear.hpp>

namespace rapt::nn {

/// One recurrent layer: h_t = cell(W x_t + b, U h_{t-1} + c). The input side of all steps is one product.
///   RNN   h' = tanh(..)
///   LSTM  c' = f c + i g,  h' = o tanh(c')      (input, forget and output gate i, f, o; candidate g)
///   GRU   h' = (1 - z) n + z h                  (reset and update gate r, z; candidate n)
struct Recurrent {
  Cell cell;
  int64_t H;
  Linear W, U;

  Recurrent(const Scope& scope, Cell cell, int64_t d_in, int64_t H)
      : cell(cell),
        H(H),
        W(scope / "input", d_in, gate_count(cell) * H),
        U(scope / "hidden", H, gate_count(cell) * H) {}

  CellState start(int64_t batch, DType dtype) const;  ///< zeros

  /// One step from x_t [B, d_in].
  CellState step(const Tensor& x_t, const CellState& state) const { return cell_step(cell, W(x_t), U(state.h), state); }

  struct Result {
    Tensor outputs;   ///< [B, T, H]
    CellState final;  ///< after the last position of each sequence
  };
  /// x [B, T, d_in]; `backwards` runs from the last position to the first.
  Result operator()(const Tensor& x, const Tensor& lengths, const CellState& start, bool backwards = false) const;
};

/// Layers on top of each other, each in one direction or both (outputs and states side by side).
struct RecurrentStack {
  std::vector<Recurrent> forwards, backwards;
  float p;  // dropout between layers

  RecurrentStack(const Scope& scope, Cell cell, int64_t layers, int64_t d_in, int64_t H, bool bidirectional, float p);

  struct Result {
    Tensor outputs;                 ///< [B, T, H] or [B, T, 2H]
    std::vector<CellState> finals;  ///< one a layer: [B, H] or [B, 2H]
  };
  Result operator()(const Tensor& x, const Tensor& lengths, Context& ctx) const;
  /// The same from given states (one direction only): the decoder.
  Result operator()(const Tensor& x, const std::vector<CellState>& starts, Context& ctx) const;
};

}  // namespace rapt::nn
