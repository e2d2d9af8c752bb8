#include <kernels/reference/access.hpp>
#include <kernels/reference/reference.hpp>
#include <rapt/base/threads.hpp>

#include <algorithm>

namespace rapt::kernels::reference {
namespace {

constexpr int64_t kColumns = 16;  // accumulators that fit in the registers of the plain baseline
constexpr int64_t kRows = 64;

double activate(Activation f, double x) {
  switch (f) {
    case Activation::none: return x;
    case Activation::relu: return apply(Unary::relu, x);
    case Activation::gelu: return apply(Unary::gelu, x);
    case Activation::gelu_tanh: return apply(Unary::gelu_tanh, x);
    case Activation::silu: return apply(Unary::silu, x);
    case Activation::tanh: return apply(Unary::tanh, x);
    case Activation::sigmoid: return apply(Unary::sigmoid, x);
  }
  return x;
}

/// Where each matrix of a batch begins.
std::vector<int64_t> batch_offsets(const Tensor& t) {
  std::vector<int64_t> offsets;
  for_each_offset(t.shape().without(-1).without(-1), {t.strides().without(-1).without(-1)},
                  [&](const std::array<int64_t, 1>& at) { offsets.push_back(at[0]); });
  return offsets;
}

/// A master weight meets bf16 data: it is rounded to bf16 first.
void load_operand(const Tensor& t, const Tensor& other, int64_t at, int64_t stride, int64_t n, double* to) {
  load(t, at, stride, n, to);
  if (t.dtype() == DType::f32 && other.dtype() == DType::bf16)
    for (int64_t i = 0; i < n; ++i) to[i] = double(float(BFloat16(float(to[i]))));
}

/// One block of C: rows [i0, i1), columns [j0, j0 + kColumns) as far as they exist, of one matrix of the batch.
struct Block {
  size_t batch;
  int64_t i0, i1, j0, width;
};

struct Problem {
  const Gemm& g;
  std::vector<int64_t> a, b, c, residual, pre;
  Row bias;
  int64_t M, K, N;

  explicit Problem(const Gemm& gemm)
      : g(gemm),
        a(batch_offsets(g.a)),
        b(batch_offsets(g.b)),
        c(batch_offsets(g.c)),
        residual(g.residual ? batch_offsets(g.residual) : c),
        pre(g.pre_activation ? batch_offsets(g.pre_activation) : c),
        bias(g.bias ? read_all(g.bias) : Row()),
        M(g.c.size(-2)),
        K(g.a.size(-1)),
        N(g.c.size(-1)) {}

  void multiply(const Block& at) const {
    std::vector<double> panel(size_t(K * kColumns)), row(static_cast<size_t>(K));
    for (int64_t k = 0; k < K; ++k)
      load_operand(g.b, g.a, b[at.batch] + k * g.b.stride(-2) + at.j0 * g.b.stride(-1), g.b.stride(-1), at.width,
                   panel.data() + k * kColumns);
    for (int64_t i = at.i0; i < at.i1; ++i) {
      load_operand(g.a, g.b, a[at.batch] + i * g.a.stride(-2), g.a.stride(-1), K, row.data());
      double sum[kColumns] = {};
      for (int64_t k = 0; k < K; ++k)
        for (int64_t j = 0; j < kColumns; ++j) sum[j] += row[size_t(k)] * panel[size_t(k * kColumns + j)];
      finish(at, i, sum);
    }
  }

  void finish(const Block& at, int64_t i, double* value) const {
    const auto begin = [&](const Tensor& t, const std::vector<int64_t>& batches) {
      return batches[at.batch] + i * t.stride(-2) + at.j0 * t.stride(-1);
    };
    if (g.bias)
      for (int64_t j = 0; j < at.width; ++j) value[j] += bias[size_t(at.j0 + j)];
    if (g.pre_activation)
      store(g.pre_activation, begin(g.pre_activation, pre), g.pre_activation.stride(-1), at.width, value);
    for (int64_t j = 0; j < at.width; ++j) value[j] = activate(g.activation, value[j]);
    if (g.residual) {
      double add[kColumns];
      load(g.residual, begin(g.residual, residual), g.residual.stride(-1), at.width, add);
      for (int64_t j = 0; j < at.width; ++j) value[j] += add[j];
    }
    store(g.c, begin(g.c, c), g.c.stride(-1), at.width, value, g.accumulate);
  }
};

}  // namespace

void run(const Gemm& gemm) {
  if (gemm.c.numel() == 0) return;
  const Problem problem(gemm);
  const int64_t across = (problem.N + kColumns - 1) / kColumns, down = (problem.M + kRows - 1) / kRows;
  parallel_for(int64_t(problem.c.size()) * down * across, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t i = block / across % down * kRows, j = block % across * kColumns;
      problem.multiply(
          {size_t(block / (across * down)), i, std::min(problem.M, i + kRows), j, std::min(kColumns, problem.N - j)});
    }
  });
}

}  // namespace rapt::kernels::reference
