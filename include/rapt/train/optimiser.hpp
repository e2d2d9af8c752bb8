#pragma once
#include <rapt/nn/parameters.hpp>

#include <variant>
#include <vector>

namespace rapt::train {

/// v = momentum v + g;  w -= lr v   (nesterov: w -= lr (g + momentum v))
struct Sgd {
  double momentum = 0;
  double decay = 0;  ///< L2, added to g
  bool nesterov = false;
};

/// m, v: running means of g and g^2;  w -= lr m^ / (sqrt(v^) + eps)          [Kingma 2015]
/// AdamW: also w -= lr decay w, on matrices only                             [Loshchilov 2019]
struct Adam {
  double beta1 = 0.9, beta2 = 0.98, eps = 1e-9;
  double decay = 0;
  bool decoupled = true;       ///< AdamW; false adds decay w to g
  bool decay_vectors = false;  ///< decay gains and biases too
};

/// Adam's second moment kept as a row and a column of means for each matrix: memory grows with its sides, not with its
/// area. w -= lr u / max(1, rms(u)), u = g / sqrt(v^)                        [Shazeer 2018]
struct Adafactor {
  double decay_exponent = 0.8;  ///< beta2 at step t is 1 - t^-0.8
  double eps1 = 1e-30;          ///< added to g^2
  double clip = 1;              ///< the bound on rms(u)
};

using Rule = std::variant<Sgd, Adam, Adafactor>;

/// Updates the flat weights of a model from its flat gradients.
class Optimiser {
 public:
  Optimiser(nn::Parameters& parameters, Rule rule);

  struct Report {
    double grad_norm = 0;  ///< global, before clipping
    bool finite = true;    ///< false: nothing was changed
  };
  /// One step. Gradients are scaled so that their global norm is at most `clip` (0: no clipping).
  Report step(double learning_rate, double clip = 0);

  int64_t steps() const { return steps_; }
  /// What a checkpoint has to keep: named flat tensors. `restore` expects the same names and sizes.
  std::vector<nn::Parameters::Entry> state() const;
  void restore(const std::vector<nn::Parameters::Entry>& state, int64_t steps);

 private:
  void apply(const Sgd& rule, double lr, double clip);
  void apply(const Adam& rule, double lr, double clip);
  void apply(const Adafactor& rule, double lr, double clip);

  nn::Parameters& parameters_;
  Rule rule_;
  int64_t steps_ = 0;
  Tensor first_, second_;  // Adam's moments; SGD's velocity is `first_`; Adafactor's rows and columns are `second_`
};

/// Exponential moving average of the weights: e = d e + (1 - d) w with d = min(decay, (1 + t) / (10 + t)) at update t, so
/// that it does not cling to the first weights. `swap` exchanges it with the weights for
/// validation and back.
class WeightAverage {
 public:
  WeightAverage(nn::Parameters& parameters, double decay);
  void update();
  void swap();
  const Tensor& values() const { return average_; }
  int64_t updates() const { return updates_; }
  void restore(const Tensor& values, int64_t updates);  ///< from a checkpoint

 private:
  nn::Parameters& parameters_;
  double decay_;
  int64_t updates_ = 0;
  bool swapped_ = false;
  Tensor average_;
};

}  // namespace rapt::train
