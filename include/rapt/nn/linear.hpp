#pragma once
#include <rapt/nn/parameters.hpp>
#include <rapt/ops/ops.hpp>

namespace rapt::nn {

/// y = act(x W^T + b)
struct Linear {
  Tensor W, b;

  struct Options {
    bool bias = true;
    double deviation = 0;  ///< normal(deviation) instead of Xavier when positive
  };
  Linear(const Scope& scope, int64_t in, int64_t out, Options options)
      : W(scope.parameter("weight", {out, in}, init(in, out, options))),
        b(options.bias ? scope.parameter("bias", {out}, Init::zeros()) : Tensor{}) {}
  Linear(const Scope& scope, int64_t in, int64_t out) : Linear(scope, in, out, Options{}) {}

  /// Several maps of the same x in one product: their results follow each other in the last axis of y. Each keeps its
  /// own name ("q.weight", "k.weight", "v.weight").
  Linear(const Scope& scope, int64_t in, const std::vector<Part>& parts, Options options)
      : W(scope.parameter(parts, "weight", {rows(parts), in}, init(in, parts.front().rows, options))),
        b(options.bias ? scope.parameter(parts, "bias", {rows(parts)}, Init::zeros()) : Tensor{}) {}

  Tensor operator()(const Tensor& x, Activation act = Activation::none) const { return linear(x, W, b, act); }

 private:
  static Init init(int64_t in, int64_t out, const Options& options) {
    return options.deviation > 0 ? Init::normal(options.deviation) : Init::xavier(in, out);
  }
  static int64_t rows(const std::vector<Part>& parts) {
    int64_t n = 0;
    for (const Part& part : parts) n += part.rows;
    return n;
  }
};

}  // namespace rapt::nn
