#include <kernels/reference/access.hpp>
#include <kernels/reference/reference.hpp>

#include <cmath>
#include <numbers>

namespace rapt::kernels::reference {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double normal_density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi); }

/// The inner part of gelu_tanh: sqrt(2 / pi) (x + 0.044715 x^3).
constexpr double kCubic = 0.044715;
double gelu_inner(double x) { return std::sqrt(2 / std::numbers::pi) * (x + kCubic * x * x * x); }

/// Broadcasting: an axis of size 1 is repeated by standing still.
Strides repeated(const Tensor& t) {
  Strides strides = t.strides();
  for (int i = 0; i < t.rank(); ++i)
    if (t.size(i) == 1) strides[i] = 0;
  return strides;
}

double combine(Binary f, double a, double b) {
  switch (f) {
    case Binary::add: return a + b;
    case Binary::sub: return a - b;
    case Binary::mul: return a * b;
    case Binary::div: return a / b;
  }
  return 0;
}

}  // namespace

double apply(Unary f, double x) {
  switch (f) {
    case Unary::neg: return -x;
    case Unary::exp: return std::exp(x);
    case Unary::log: return std::log(x);
    case Unary::sqrt: return std::sqrt(x);
    case Unary::square: return x * x;
    case Unary::relu: return x < 0 ? 0 : x;
    case Unary::gelu: return x * normal_cdf(x);
    case Unary::gelu_tanh: return 0.5 * x * (1 + std::tanh(gelu_inner(x)));
    case Unary::silu: return x * sigmoid(x);
    case Unary::tanh: return std::tanh(x);
    case Unary::sigmoid: return sigmoid(x);
    case Unary::softplus: return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
  }
  return 0;
}

double derivative(Unary f, double x) {
  switch (f) {
    case Unary::neg: return -1;
    case Unary::exp: return std::exp(x);
    case Unary::log: return 1 / x;
    case Unary::sqrt: return 0.5 / std::sqrt(x);
    case Unary::square: return 2 * x;
    case Unary::relu: return x > 0 ? 1 : 0;
    case Unary::gelu: return normal_cdf(x) + x * normal_density(x);
    case Unary::gelu_tanh: {
      const double t = std::tanh(gelu_inner(x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / std::numbers::pi) * (1 + 3 * kCubic * x * x);
    }
    case Unary::silu: return sigmoid(x) * (1 + x * (1 - sigmoid(x)));
    case Unary::tanh: return 1 - std::tanh(x) * std::tanh(x);
    case Unary::sigmoid: return sigmoid(x) * (1 - sigmoid(x));
    case Unary::softplus: return sigmoid(x);
  }
  return 0;
}

void run(const UnaryForward& u) {
  Row row;
  for_each_run(u.y.shape(), {u.x.strides(), u.y.strides()}, [&](const auto& at, int64_t n, const auto& step) {
    row.resize(size_t(n));
    load(u.x, at[0], step[0], n, row.data());
    for (double& x : row) x = apply(u.f, x);
    store(u.y, at[1], step[1], n, row.data());
  });
}

void run(const UnaryBackward& u) {
  Row x, dy;
  for_each_run(u.dx.shape(), {u.x.strides(), u.dy.strides(), u.dx.strides()},
               [&](const auto& at, int64_t n, const auto& step) {
                 x.resize(size_t(n));
                 dy.resize(size_t(n));
                 load(u.x, at[0], step[0], n, x.data());
                 load(u.dy, at[1], step[1], n, dy.data());
                 for (size_t i = 0; i < x.size(); ++i) dy[i] *= derivative(u.f, x[i]);
                 store(u.dx, at[2], step[2], n, dy.data(), u.accumulate);
               });
}

void run(const BinaryForward& op) {
  Row a, b;
  for_each_run(op.y.shape(), {repeated(op.a), repeated(op.b), op.y.strides()},
               [&](const auto& at, int64_t n, const auto& step) {
                 a.resize(size_t(n));
                 b.resize(size_t(n));
                 load(op.a, at[0], step[0], n, a.data());
                 load(op.b, at[1], step[1], n, b.data());
                 for (size_t i = 0; i < a.size(); ++i) a[i] = op.alpha * combine(op.f, a[i], b[i]);
                 store(op.y, at[2], step[2], n, a.data(), op.accumulate);
               });
}

void run(const Affine& op) {
  Row row;
  for_each_run(op.y.shape(), {op.x.strides(), op.y.strides()}, [&](const auto& at, int64_t n, const auto& step) {
    row.resize(size_t(n));
    load(op.x, at[0], step[0], n, row.data());
    for (double& x : row) x = op.alpha * x + op.beta;
    store(op.y, at[1], step[1], n, row.data(), op.accumulate);
  });
}

void run(const Reduce& op) {
  Strides sum_strides = contiguous_strides(op.y.shape());
  for (int i = 0; i < op.y.rank(); ++i)
    if (op.y.size(i) == 1) sum_strides[i] = 0;
  Row sums(size_t(op.y.numel())), row;
  for_each_run(op.x.shape(), {op.x.strides(), sum_strides}, [&](const auto& at, int64_t n, const auto& step) {
    row.resize(size_t(n));
    load(op.x, at[0], step[0], n, row.data());
    for (int64_t i = 0; i < n; ++i) sums[size_t(at[1] + i * step[1])] += row[size_t(i)];
  });
  for (double& sum : sums) sum *= op.alpha;
  write_all(op.y, sums, op.accumulate);
}

void run(const Dropout& op) {
  int64_t index = 0;
  Row row;
  for_each_run(op.y.shape(), {op.x.strides(), op.y.strides()}, [&](const auto& at, int64_t n, const auto& step) {
    row.resize(size_t(n));
    load(op.x, at[0], step[0], n, row.data());
    for (double& x : row) x *= dropout_factor(op.random, op.p, index++);
    store(op.y, at[1], step[1], n, row.data(), op.accumulate);
  });
}

void run(const SwigluForward& op) {
  const auto D = size_t(op.y.size(1));
  for (int64_t n = 0; n < op.y.size(0); ++n) {
    Row x = read_row(op.x, n);
    for (size_t d = 0; d < D; ++d) x[d] = apply(Unary::silu, x[d]) * x[D + d];
    write_row(op.y, n, x);
  }
}

void run(const SwigluBackward& op) {
  const auto D = size_t(op.dy.size(1));
  for (int64_t n = 0; n < op.dy.size(0); ++n) {
    Row x = read_row(op.x, n);
    const Row dy = read_row(op.dy, n);
    for (size_t d = 0; d < D; ++d) {
      const double g = x[d], u = x[D + d];
      x[d] = dy[d] * u * derivative(Unary::silu, g);
      x[D + d] = dy[d] * apply(Unary::silu, g);
    }
    write_row(op.dx, n, x, op.accumulate);
  }
}

void run(const Rotary& op) {
  const int64_t D = op.x.size(3), T = op.x.size(1);
  Row cosines(size_t(T * D / 2)), sines(cosines.size()), row(static_cast<size_t>(D));
  for (int64_t t = 0; t < T; ++t)
    for (int64_t i = 0; i < D / 2; ++i) {
      const double angle = double(op.offset + t) * std::pow(op.base, -2.0 * double(i) / double(D));
      cosines[size_t(t * D / 2 + i)] = std::cos(angle);
      sines[size_t(t * D / 2 + i)] = op.inverse ? -std::sin(angle) : std::sin(angle);
    }
  int64_t run = 0;
  for_each_run(op.x.shape(), {op.x.strides(), op.y.strides()}, [&](const auto& at, int64_t n, const auto& step) {
    const int64_t t = run++ / op.x.size(2) % T;
    load(op.x, at[0], step[0], n, row.data());
    for (int64_t i = 0; i < D / 2; ++i) {
      const double c = cosines[size_t(t * D / 2 + i)], s = sines[size_t(t * D / 2 + i)];
      double& first = row[size_t(op.interleaved ? 2 * i : i)];
      double& second = row[size_t(op.interleaved ? 2 * i + 1 : i + D / 2)];
      const double x0 = first, x1 = second;
      first = x0 * c - x1 * s;
      second = x0 * s + x1 * c;
    }
    store(op.y, at[1], step[1], n, row.data(), op.accumulate);
  });
}

}  // namespace rapt::kernels::reference
