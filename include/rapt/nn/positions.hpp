#pragma once
#include <rapt/tensor/tensor.hpp>

namespace rapt::nn {

/// How a model knows the order of its input.
enum class Position {
  none,        ///< a set, not a sequence
  sinusoidal,  ///< added to the embedding [Vaswani 2017, 3.5]
  learned,     ///< a trained vector a position, added to the embedding
  rotary,      ///< queries and keys are turned by their position [Su 2021]
  alibi,       ///< scores fall linearly with distance [Press 2021]
};

/// PE(pos, 2i) = sin(pos / 10000^(2i/d)),  PE(pos, 2i+1) = cos(pos / 10000^(2i/d));  [length, d].
/// With `halves` all sines come first and then all cosines, as some published models store it.
Tensor sinusoidal_positions(int64_t length, int64_t d, DType dtype = DType::f32, bool halves = false);

/// Slopes 2^(-8 i / h), i = 1..h, for a power of two; else those of the next lower power with every second of the next
/// higher one interleaved behind.
Tensor alibi_slopes(int64_t heads);

}  // namespace rapt::nn
