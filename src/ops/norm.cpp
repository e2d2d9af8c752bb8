#include <ops/support.hpp>

namespace rapt {
namespace {

struct NormNode : Backward {
  NormKind kind;
  Tensor sum, gain, mean, rstd;
  float p = 0;
  Philox random;
  bool has_residual = false;  // inputs: x, r, gain, bias; outputs: y, sum (with a residual)

  const char* name() const override { return "norm"; }
  void run(Grads& g) override {
    kernels::NormBackward op;
    op.kind = kind;
    op.sum = sum;
    op.gain = gain;
    op.mean = mean;
    op.rstd = rstd;
    op.p = p;
    op.random = random;
    if (const Tensor dy = g.dy(0)) {
      op.dy = as_rows(dy);
    } else {  // only the sum was used further on
      op.dy = Tensor::zeros(sum.shape(), sum.dtype(), sum.device());
    }
    if (has_residual)
      if (const Tensor dsum = g.dy(1)) op.dsum = as_rows(dsum);
    auto place = [&](int input, Tensor& grad, bool& accumulate) {
      if (!g.wants(input)) return;
      const GradTarget target = g.into(input);
      grad = input < 2 ? as_rows(target.grad) : target.grad;
      accumulate = target.accumulate;
    };
    place(0, op.dx, op.accumulate_dx);
    place(1, op.dresidual, op.accumulate_dresidual);
    place(2, op.dgain, op.accumulate_dgain);
    place(3, op.dbias, op.accumulate_dbias);
    kernels::launch(op);
  }
};

void check(const Tensor& x, const Tensor& gain, const Tensor& bias) {
  require_float("norm", x, "x");
  require<ShapeError>(x.rank() >= 1 && x.size(-1) > 0, "[norm] x {}: at least one feature is needed",
                      to_string(x.shape()));
  require_dtype("norm", gain, "gain", wide(x.dtype()));
  require_shape("norm", gain, "gain", {x.size(-1)});
  if (!bias) return;
  require_dtype("norm", bias, "bias", wide(x.dtype()));
  require_shape("norm", bias, "bias", {x.size(-1)});
}

}  // namespace

AddNorm add_norm(const Tensor& input, const Tensor& residual, const Tensor& gains, const Tensor& biases,
                 const NormOptions& options, float p, const Philox& random) {
  check(input, gains, biases);
  require<ConfigError>(p >= 0 && p < 1, "[norm] dropout {} is outside [0, 1)", p);
  const Tensor gain = contiguous(gains), bias = biases ? contiguous(biases) : biases;
  const Tensor x = contiguous(input);
  const Tensor r = residual ? contiguous(residual) : residual;
  if (r) {
    require_dtype("norm", r, "the residual", x.dtype());
    require_shape("norm", r, "the residual", x.shape());
  }
  const Tensor rows = as_rows(x);
  const DType statistics = wide(x.dtype());
  AddNorm result{r ? Tensor::empty(x.shape(), x.dtype(), x.device()) : x,
                 Tensor::empty(x.shape(), x.dtype(), x.device())};
  kernels::NormForward op;
  op.kind = options.kind;
  op.x = rows;
  if (r) {
    op.residual = as_rows(r);
    op.sum = as_rows(result.sum);
  }
  op.gain = gain;
  op.bias = bias;
  op.y = as_rows(result.y);
  op.mean = Tensor::empty({rows.size(0)}, statistics, x.device());
  op.rstd = Tensor::empty({rows.size(0)}, statistics, x.device());
  op.eps = options.eps;
  op.p = r ? p : 0;
  op.random = random;
  kernels::launch(op);
  auto memory = std::make_unique<NormNode>();
  memory->kind = options.kind;
  memory->sum = saved(as_rows(result.sum));
  memory->gain = saved(gain);
  memory->mean = op.mean;
  memory->rstd = op.rstd;
  memory->p = op.p;
  memory->random = random;
  memory->has_residual = r.defined();
  const Tensor inputs[] = {x, r, gain, bias};
  Tensor outputs[] = {result.y, result.sum};
  record(std::move(memory), inputs, std::span(outputs, r ? 2 : 1));
  return result;
}

Tensor norm(const Tensor& x, const Tensor& gain, const Tensor& bias, const NormOptions& options) {
  return add_norm(x, {}, gain, bias, options).y;
}

}  // namespace rapt
