#pragma once

namespace rapt {

enum class Activation { none, relu, gelu, gelu_tanh, silu, tanh, sigmoid };
enum class NormKind { layer, rms };
enum class Cell { rnn, lstm, gru };

/// How many vectors of the hidden size the gates of a cell are.
constexpr int gate_count(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

}  // namespace rapt
