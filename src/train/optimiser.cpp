#include <algorithm>
#include <base/fail.hpp>
#include <cmath>
#include <kernels/kernels.hpp>
#include <rapt/train/optimiser.hpp>

namespace rapt::train {
namespace {

/// Entries of a matrix [R, C] seen from outside: its first axis and all the others.
struct Sides {
  int64_t rows, columns;
};

Tensor like(const Tensor& t) { return Tensor::zeros(t.shape(), t.dtype(), t.device()); }

}  // namespace

Optimiser::Optimiser(nn::Parameters& parameters, Rule rule) : parameters_(parameters), rule_(rule) {
  const Tensor& w = parameters.weights();
  if (const auto* sgd = std::get_if<Sgd>(&rule_)) {
    if (sgd->momentum != 0) first_ = like(w);
  } else if (std::holds_alternative<Adam>(rule_)) {
    first_ = like(w);
    second_ = like(w);
  } else {
    second_ = Tensor::zeros({factored_size()}, w.dtype());
  }
}

Optimiser::Report Optimiser::step(double learning_rate, double clip) {
  Report report;
  const Tensor square = Tensor::empty({1}, DType::f64);
  kernels::launch(kernels::SumSquares{parameters_.grads(), square});
  report.grad_norm = std::sqrt(square.item());
  report.finite = std::isfinite(report.grad_norm);
  if (!report.finite) return report;
  const double factor = clip > 0 && report.grad_norm > clip ? clip / report.grad_norm : 1;
  ++steps_;
  std::visit([&](const auto& rule) { apply(rule, learning_rate, factor); }, rule_);
  return report;
}

void Optimiser::apply(const Sgd& rule, double lr, double clip) {
  kernels::Sgd op{parameters_.weights(), parameters_.grads(), first_, lr, rule.momentum, rule.decay};
  op.clip = clip;
  op.nesterov = rule.nesterov;
  kernels::launch(op);
}

void Optimiser::apply(const Adam& rule, double lr, double clip) {
  const Tensor w = parameters_.weights(), g = parameters_.grads();
  auto update = [&](int64_t begin, int64_t end, double decay) {
    const int64_t n = end - begin;
    kernels::Adam op{w.narrow(0, begin, n), g.narrow(0, begin, n), first_.narrow(0, begin, n),
                     second_.narrow(0, begin, n), lr, rule.beta1, rule.beta2, rule.eps, decay,
                     1 - std::pow(rule.beta1, double(steps_)), 1 - std::pow(rule.beta2, double(steps_))};
    op.clip = clip;
    op.decoupled = rule.decoupled;
    kernels::launch(op);
  };
  if (rule.decay == 0 || rule.decay_vectors) return update(0, w.size(0), rule.decay);
  for (const auto& range : parameters_.ranges()) update(range.begin, range.end, range.matrix ? rule.decay : 0);
}

std::vector<nn::Parameters::Entry> Optimiser::state() const {
  std::vector<nn::Parameters::Entry> entries;
  if (first_) entries.push_back({"first_moment", first_});
  if (second_) entries.push_back({"second_moment", second_});
  return entries;
}

void Optimiser::restore(const std::vector<nn::Parameters::Entry>& state, int64_t steps) {
  for (const auto& own : this->state()) {
    const auto it = std::find_if(state.begin(), state.end(), [&](const auto& e) { return e.name == own.name; });
    require<FileError>(it != state.end(), "[optimiser] the saved state has no '{}': it is of another optimiser", own.name);
    require<FileError>(it->tensor.shape() == own.tensor.shape(),
                       "[optimiser] saved '{}' has shape {}, this model needs {}", own.name,
                       to_string(it->tensor.shape()), to_string(own.tensor.shape()));
    own.tensor.copy_from(it->tensor);
  }
  steps_ = steps;
}

WeightAverage::WeightAverage(nn::Parameters& parameters, double decay) : parameters_(parameters), decay_(decay) {
  require<ConfigError>(decay >= 0 && decay < 1, "[average] decay {} is outside [0, 1)", decay);
  average_ = like(parameters.weights());
  average_.copy_from(parameters.weights());
}

void WeightAverage::update() {
  ++updates_;
  // Early on the average follows faster: after t updates it never looks back further than they reach.
  const double decay = std::min(decay_, double(1 + updates_) / double(10 + updates_));
  kernels::launch(kernels::Affine{average_, average_, decay});
  kernels::launch(kernels::Affine{parameters_.weights(), average_, 1 - decay, 0, true});
}

void WeightAverage::swap() {
  const Tensor kept = Tensor::empty(average_.shape(), average_.dtype());
  kept.copy_from(average_);
  average_.copy_from(parameters_.weights());
  parameters_.weights().copy_from(kept);
}

}  // namespace rapt::train
