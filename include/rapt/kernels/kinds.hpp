#pragma once

namespace rapt {

enum class Activation { none, relu, gelu, gelu_tanh, silu, tanh, sigmoid };
enum class NormKind { layer, rms };
enum class Cell { rnn, lstm, gru };

}  // namespace rapt
