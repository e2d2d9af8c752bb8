#include <base/fail.hpp>
#include <kernels/kernels.hpp>
#include <rapt/base/threads.hpp>
#include <rapt/train/optimiser.hpp>

#include <algorithm>
#include <cmath>

namespace rapt::train {
namespace {

Tensor like(const Tensor& t) { return Tensor::zeros(t.shape(), t.dtype(), t.device()); }

/// Adafactor keeps a mean for every row and column of a matrix, and one for every element of a vector.
int64_t factors_of(const nn::Parameters::Range& range) {
  return range.is_matrix() ? range.rows + range.columns : range.size();
}

}  // namespace

namespace {

void check(const Sgd& r) {
  require<ConfigError>(r.momentum >= 0 && r.momentum < 1 && r.decay >= 0,
                       "[sgd] momentum {} and decay {}: [0, 1) and 0 or more", r.momentum, r.decay);
}
void check(const Adam& r) {
  const bool fine = r.beta1 >= 0 && r.beta1 < 1 && r.beta2 >= 0 && r.beta2 < 1 && r.eps > 0 && r.decay >= 0;
  require<ConfigError>(fine, "[adam] betas {} and {} in [0, 1), eps {} above 0 and decay {} of 0 or more are needed",
                       r.beta1, r.beta2, r.eps, r.decay);
}
void check(const Adafactor& r) {
  require<ConfigError>(r.decay_exponent > 0 && r.eps1 > 0 && r.clip > 0,
                       "[adafactor] decay exponent {}, eps {} and clip {} must be above 0", r.decay_exponent, r.eps1,
                       r.clip);
}

}  // namespace

Optimiser::Optimiser(nn::Parameters& parameters, Rule rule) : parameters_(parameters), rule_(rule) {
  std::visit([](const auto& r) { check(r); }, rule_);
  const Tensor& w = parameters.weights();
  if (const auto* sgd = std::get_if<Sgd>(&rule_)) {
    if (sgd->momentum != 0) first_ = like(w);
  } else if (std::holds_alternative<Adam>(rule_)) {
    first_ = like(w);
    second_ = like(w);
  } else {
    int64_t factors = 0;
    for (const auto& range : parameters.ranges()) factors += factors_of(range);
    second_ = Tensor::zeros({factors}, w.dtype(), w.device());
  }
}

Optimiser::Report Optimiser::step(double learning_rate, double clip) {
  require<ConfigError>(std::isfinite(learning_rate) && learning_rate >= 0 && clip >= 0,
                       "[optimiser] learning rate {} and clipping norm {}: 0 or more are needed", learning_rate, clip);
  Report report;
  const Tensor square = Tensor::empty({1}, DType::f64);
  kernels::launch(kernels::SumSquares{parameters_.grads(), square});
  report.grad_norm = std::sqrt(square.item());
  report.finite = std::isfinite(report.grad_norm);
  if (!report.finite) return report;
  const double factor = clip > 0 && report.grad_norm > clip ? clip / report.grad_norm : 1;
  ++steps_;
  std::visit([&](const auto& rule) { apply(rule, learning_rate, factor); }, rule_);
  parameters_.weights().storage().touch();  // packed forms of the weights are stale now
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
  auto update = [&](int64_t begin, int64_t n, double decay) {
    kernels::Adam op{w.narrow(0, begin, n),
                     g.narrow(0, begin, n),
                     first_.narrow(0, begin, n),
                     second_.narrow(0, begin, n),
                     lr,
                     rule.beta1,
                     rule.beta2,
                     rule.eps,
                     decay,
                     1 - std::pow(rule.beta1, double(steps_)),
                     1 - std::pow(rule.beta2, double(steps_))};
    op.clip = clip;
    op.decoupled = rule.decoupled;
    kernels::launch(op);
  };
  if (rule.decay == 0 || rule.decay_vectors) return update(0, w.size(0), rule.decay);
  for (const auto& range : parameters_.ranges()) update(range.begin, range.size(), range.is_matrix() ? rule.decay : 0);
}

namespace {

/// One parameter of Adafactor: the means in `v` move towards those of g^2, then w follows g / sqrt(v^).
template <class T>
void adafactor_update(const Adafactor& rule, double beta, double lr, double clip, const nn::Parameters::Range& range,
                      T* w, const T* g, T* v) {
  const int64_t R = range.rows, C = range.columns;
  T* columns = v + R;
  auto square = [&](int64_t i) { return double(g[i]) * clip * (double(g[i]) * clip) + rule.eps1; };
  std::vector<double> update(size_t(range.size()));
  if (range.is_matrix()) {
    std::vector<double> column_mean(size_t(C), 0.0);
    double total = 0;
    for (int64_t r = 0; r < R; ++r) {
      double row_mean = 0;
      for (int64_t c = 0; c < C; ++c) {
        const double s = square(r * C + c);
        row_mean += s / double(C);
        column_mean[size_t(c)] += s / double(R);
      }
      v[r] = T(beta * double(v[r]) + (1 - beta) * row_mean);
      total += double(v[r]) / double(R);
    }
    for (int64_t c = 0; c < C; ++c) columns[c] = T(beta * double(columns[c]) + (1 - beta) * column_mean[size_t(c)]);
    for (int64_t i = 0; i < R * C; ++i)
      update[size_t(i)] = double(g[i]) * clip / std::sqrt(double(v[i / C]) * double(columns[i % C]) / total);
  } else {
    for (int64_t i = 0; i < R; ++i) {
      v[i] = T(beta * double(v[i]) + (1 - beta) * square(i));
      update[size_t(i)] = double(g[i]) * clip / std::sqrt(double(v[i]));
    }
  }
  double mean_square = 0;
  for (double u : update) mean_square += u * u / double(update.size());
  const double scale = lr / std::max(1.0, std::sqrt(mean_square) / rule.clip);
  for (size_t i = 0; i < update.size(); ++i) w[i] = T(double(w[i]) - scale * update[i]);
}

}  // namespace

void Optimiser::apply(const Adafactor& rule, double lr, double clip) {
  const double beta = 1 - std::pow(double(steps_), -rule.decay_exponent);
  const Tensor w = parameters_.weights(), g = parameters_.grads();
  std::vector<int64_t> factor_begin{0};
  for (const auto& range : parameters_.ranges()) factor_begin.push_back(factor_begin.back() + factors_of(range));
  parallel_for(int64_t(parameters_.ranges().size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto& range = parameters_.ranges()[size_t(i)];
      const int64_t factors = factor_begin[size_t(i)];
      if (w.dtype() == DType::f64)
        adafactor_update(rule, beta, lr, clip, range, w.data<double>() + range.begin, g.data<double>() + range.begin,
                         second_.data<double>() + factors);
      else
        adafactor_update(rule, beta, lr, clip, range, w.data<float>() + range.begin, g.data<float>() + range.begin,
                         second_.data<float>() + factors);
    }
  });
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
    require<FileError>(it != state.end(), "[optimiser] the saved state has no '{}': it is of another optimiser",
                       own.name);
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

void WeightAverage::restore(const Tensor& values, int64_t updates) {
  average_.copy_from(values);
  updates_ = updates;
}

void WeightAverage::update() {
  require<Error>(!swapped_, "[average] the average is in the place of the weights: swap them back first");
  ++updates_;
  // Early on the average follows faster: after t updates it never looks back further than they reach.
  const double decay = std::min(decay_, double(1 + updates_) / double(10 + updates_));
  kernels::launch(kernels::Affine{average_, average_, decay});
  kernels::launch(kernels::Affine{parameters_.weights(), average_, 1 - decay, 0, true});
}

void WeightAverage::swap() {
  swapped_ = !swapped_;
  const Tensor kept = Tensor::empty(average_.shape(), average_.dtype());
  kept.copy_from(average_);
  average_.copy_from(parameters_.weights());
  parameters_.weights().copy_from(kept);
}

}  // namespace rapt::train
