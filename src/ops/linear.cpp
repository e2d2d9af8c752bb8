#include <ops/support.hpp>

namespace rapt {
namespace {

kernels::Unary unary_of(Activation act) {
  switch (act) {
    case Activation::gelu: return kernels::Unary::gelu;
    case Activation::gelu_tanh: return kernels::Unary::gelu_tanh;
    case Activation::silu: return kernels::Unary::silu;
    case Activation::tanh: return kernels::Unary::tanh;
    case Activation::sigmoid: return kernels::Unary::sigmoid;
    case Activation::relu:
    case Activation::none: break;
  }
  return kernels::Unary::relu;
}

/// target (+)= left right. The gradient of a transposed view is transposed too; the kernel wants unit stride in its last
/// axis, so such a target is turned around: (left right)^T = right^T left^T.
void add_product(const GradTarget& target, const Tensor& left, const Tensor& right) {
  const bool turned = target.grad.stride(-1) != 1 && target.grad.size(-1) != 1;
  kernels::Gemm gemm;
  gemm.a = turned ? right.transpose(-1, -2) : left;
  gemm.b = turned ? left.transpose(-1, -2) : right;
  gemm.c = turned ? target.grad.transpose(-1, -2) : target.grad;
  gemm.accumulate = target.accumulate;
  kernels::launch(gemm);
}

/// dW (+)= dy^T x  and  db (+)= sum of dy over rows.
void weight_gradients(Grads& g, int W, int b, const Tensor& dy, const Tensor& x) {
  if (g.wants(W)) add_product(g.into(W), dy.transpose(0, 1), x);
  if (g.wants(b)) {
    const GradTarget db = g.into(b);
    kernels::Reduce reduce;
    reduce.x = dy;
    reduce.y = db.grad.view({1, dy.size(1)});
    reduce.accumulate = db.accumulate;
    kernels::launch(reduce);
  }
}

struct LinearBackward : Backward {
  Tensor x, W, pre;  // pre: x W^T + b (for relu the result itself, whose sign says the same)
  Activation act = Activation::none;

  const char* name() const override { return "linear"; }
  void run(Grads& g) override {
    Tensor dy = as_rows(g.dy());
    if (act != Activation::none) {  // dpre = dy act'(pre), in the place of dy, which nobody reads after us
      kernels::UnaryBackward activation{unary_of(act), pre, dy, dy};
      kernels::launch(activation);
    }
    if (g.wants(0)) {  // dx = dpre W
      const GradTarget dx = g.into(0);
      kernels::Gemm gemm;
      gemm.a = dy;
      gemm.b = W;
      gemm.c = as_rows(dx.grad);
      gemm.accumulate = dx.accumulate;
      gemm.b_is_weight = true;
      kernels::launch(gemm);
    }
    weight_gradients(g, 1, 2, dy, x);
  }
};

bool flattens(const Tensor& x) {
  for (int i = 0; i + 2 < x.rank(); ++i)
    if (x.size(i) != 1 && x.stride(i) != x.stride(i + 1) * x.size(i + 1)) return false;
  return x.stride(-1) == 1;
}

}  // namespace

Tensor linear(const Tensor& input, const Tensor& W, const Tensor& bias, Activation act) {
  require_float("linear", input, "x");
  require_dtype("linear", W, "W", wide(input.dtype()));
  require<ShapeError>(input.rank() >= 1 && W.rank() == 2, "[linear] x {} and W {}: x [.., K] and W [N, K] are needed",
                      to_string(input.shape()), to_string(W.shape()));
  require<ShapeError>(input.size(-1) == W.size(1),
                      "[linear] inner dimensions differ: x {} and W {}; y = x W^T needs as many columns in both",
                      to_string(input.shape()), to_string(W.shape()));
  require<ShapeError>(W.size(0) > 0 && W.size(1) > 0, "[linear] x {} and W {}: every size of W must be at least 1",
                      to_string(input.shape()), to_string(W.shape()));
  if (bias) {
    require_dtype("linear", bias, "b", wide(input.dtype()));
    require_shape("linear", bias, "b", {W.size(0)});
  }
  const Tensor b = bias ? contiguous(bias) : bias;
  const Tensor x = flattens(input) ? input : contiguous(input);
  Tensor y = Tensor::empty(x.shape().with(-1, W.size(0)), x.dtype(), x.device());
  const bool keep = wants_grad({&x, &W, &b});
  kernels::Gemm gemm;
  gemm.a = as_rows(x);
  gemm.b = W.transpose(0, 1);
  gemm.c = as_rows(y);
  gemm.bias = b;
  gemm.activation = act;
  gemm.b_is_weight = true;
  if (keep && act != Activation::none && act != Activation::relu)
    gemm.pre_activation = Tensor::empty(gemm.c.shape(), x.dtype(), x.device());
  kernels::launch(gemm);
  LinearBackward memory;
  if (keep) {
    memory.x = saved(gemm.a);
    memory.W = saved(W);
    memory.act = act;
    if (act != Activation::none) memory.pre = gemm.pre_activation ? gemm.pre_activation : saved(gemm.c);
  }
  return record(std::move(memory), {x, W, b}, y);
}

namespace {

struct MatmulBackward : Backward {
  Tensor a, b;
  const char* name() const override { return "matmul"; }
  void run(Grads& g) override {
    const Tensor dy = g.dy();
    if (g.wants(0)) add_product(g.into(0), dy, b.transpose(-1, -2));  // da = dy b^T
    if (g.wants(1)) add_product(g.into(1), a.transpose(-1, -2), dy);  // db = a^T dy
  }
};

bool has_unit_stride(const Tensor& t) { return t.stride(-1) == 1 || t.stride(-2) == 1; }

}  // namespace

Tensor matmul(const Tensor& left, const Tensor& right) {
  require_float("matmul", left, "a");
  require_dtype("matmul", right, "b", left.dtype());
  const bool shaped = left.rank() >= 2 && left.rank() == right.rank() && left.size(-1) == right.size(-2) &&
                      left.shape().with(-1, 0).with(-2, 0) == right.shape().with(-1, 0).with(-2, 0);
  require<ShapeError>(shaped, "[matmul] a {} and b {}: a [.., M, K] and b [.., K, N] are needed",
                      to_string(left.shape()), to_string(right.shape()));
  const Tensor a = has_unit_stride(left) ? left : contiguous(left);
  const Tensor b = has_unit_stride(right) ? right : contiguous(right);
  Tensor y = Tensor::empty(a.shape().with(-1, b.size(-1)), a.dtype(), a.device());
  kernels::Gemm gemm;
  gemm.a = a;
  gemm.b = b;
  gemm.c = y;
  kernels::launch(gemm);
  MatmulBackward memory;
  memory.a = saved(a);
  memory.b = saved(b);
  return record(std::move(memory), {a, b}, y);
}

}  // namespace rapt
