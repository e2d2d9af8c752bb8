#pragma once
#include <rapt/autograd/tape.hpp>
#include <rapt/base/random.hpp>
#include <rapt/tensor/tensor.hpp>

#include <string>
#include <vector>

namespace rapt::nn {

/// Collects attention weights while a model runs, without changing its result.
struct Probe {
  struct Record {
    std::string where;  ///< "decoder.2.cross"
    Tensor weights;     ///< [B, h, Tq, Tk]
  };
  std::vector<Record> records;
};

/// What varies from call to call travels here, in the open.
struct Context {
  bool training = false;        ///< dropout on
  DType dtype = DType::f32;     ///< of activations; weights stay f32 (f64 with f64)
  uint64_t seed = 0, step = 0;  ///< of the randomness
  uint64_t draws = 0;           ///< tensors that drew randomness in this step
  Probe* probe = nullptr;
  bool recompute = false;  ///< keep only the inputs of layers, and run them again in the backward pass

  /// The randomness of the next tensor.
  Philox next_random() { return {seed, step << 20 | draws++}; }
  float dropout(float p) const { return training ? p : 0; }
};

/// Runs f(x.., ctx) so that the backward pass recomputes it, with the same randomness.
template <class F>
Tensor recomputed(F f, std::vector<Tensor> inputs, Context& ctx) {
  if (!ctx.recompute) return f(std::span<const Tensor>(inputs), ctx);
  const Context before = ctx;
  Context* outer = &ctx;
  bool first = true;
  return checkpoint(
      [f = std::move(f), before, outer, first](std::span<const Tensor> x) mutable {
        Context again = before;
        if (!first) again.probe = nullptr;  // it has seen this layer, and may be gone by now
        Tensor y = f(x, again);
        if (first) outer->draws = again.draws;  // later layers draw where this one ended
        first = false;
        return y;
      },
      std::move(inputs));
}

}  // namespace rapt::nn
