#include <ops/support.hpp>

namespace rapt {
namespace {

using kernels::Binary;
using kernels::Unary;

// ------------------------------------------------------------------------------------------------------- one argument

struct UnaryBackwardNode : Backward {
  Unary f;
  Tensor x;
  explicit UnaryBackwardNode(Unary f) : f(f) {}
  const char* name() const override { return "unary"; }
  void run(Grads& g) override {  // dx = dy f'(x)
    const GradTarget dx = g.into(0);
    kernels::launch(kernels::UnaryBackward{f, x, g.dy(), dx.grad, dx.accumulate});
  }
};

Tensor unary(Unary f, const Tensor& x) {
  require_float("unary", x, "x");
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  kernels::launch(kernels::UnaryForward{f, x, y});
  UnaryBackwardNode memory(f);
  memory.x = saved(x);
  return record(std::move(memory), {x}, y);
}

// ------------------------------------------------------------------------------------------------------ two arguments

/// x with axes of size 1 in front, up to `rank`.
Tensor aligned(const Tensor& x, int rank) {
  Shape shape = x.shape();
  while (shape.rank() < rank) shape = shape.inserted(0, 1);
  return x.view(shape);
}

Shape broadcast_shape(const Tensor& a, const Tensor& b) {
  Shape shape = a.shape();
  for (int i = 0; i < shape.rank(); ++i) {
    require<ShapeError>(a.size(i) == b.size(i) || a.size(i) == 1 || b.size(i) == 1,
                        "[elementwise] {} and {} do not broadcast to one shape", to_string(a.shape()),
                        to_string(b.shape()));
    shape[i] = a.size(i) == 1 ? b.size(i) : a.size(i);
  }
  return shape;
}

/// target (+)= alpha grad, summed over the axes that were repeated.
void add_reduced(const GradTarget& target, const Tensor& grad, double alpha) {
  kernels::Reduce reduce;
  reduce.x = grad;
  reduce.y = target.grad;
  reduce.alpha = alpha;
  reduce.accumulate = target.accumulate;
  kernels::launch(reduce);
}

struct BinaryBackward : Backward {
  Binary f;
  Tensor a, b, y;
  explicit BinaryBackward(Binary f) : f(f) {}
  const char* name() const override { return "binary"; }

  /// target (+)= reduce(dy o factor)
  void product(Grads& g, int input, Binary o, const Tensor& dy, const Tensor& factor, double alpha) {
    if (!g.wants(input)) return;
    const GradTarget target = g.into(input);
    kernels::BinaryForward op{o, dy, factor, target.grad, alpha, target.accumulate};
    if (target.grad.shape() == dy.shape()) return kernels::launch(op);
    op.y = Tensor::empty(dy.shape(), dy.dtype(), dy.device());
    op.accumulate = false;
    kernels::launch(op);
    add_reduced(target, op.y, 1);
  }
  void plain(Grads& g, int input, const Tensor& dy, double alpha) {
    if (!g.wants(input)) return;
    if (alpha == 1 && g.pass(input, dy)) return;
    add_reduced(g.into(input), dy, alpha);
  }
  void run(Grads& g) override {
    const Tensor dy = g.dy();
    switch (f) {
      case Binary::add:
      case Binary::sub:
        plain(g, 1, dy, f == Binary::add ? 1 : -1);
        plain(g, 0, dy, 1);
        break;
      case Binary::mul:
        product(g, 0, Binary::mul, dy, b, 1);
        product(g, 1, Binary::mul, dy, a, 1);
        break;
      case Binary::div: {  // y = a / b: da = dy / b, db = -dy y / b
        product(g, 0, Binary::div, dy, b, 1);
        if (!g.wants(1)) break;
        const Tensor scaled = Tensor::empty(dy.shape(), dy.dtype(), dy.device());
        kernels::launch(kernels::BinaryForward{Binary::mul, dy, y, scaled});
        product(g, 1, Binary::div, scaled, b, -1);
        break;
      }
    }
  }
};

Tensor binary(Binary f, const Tensor& left, const Tensor& right) {
  require_float("elementwise", left, "a");
  require_dtype("elementwise", right, "b", left.dtype());
  const int rank = std::max(left.rank(), right.rank());
  const Tensor a = aligned(left, rank), b = aligned(right, rank);
  Tensor y = Tensor::empty(broadcast_shape(a, b), a.dtype(), a.device());
  kernels::launch(kernels::BinaryForward{f, a, b, y});
  BinaryBackward memory(f);
  if (f == Binary::mul) memory.a = saved(a);
  if (f == Binary::mul || f == Binary::div) memory.b = saved(b);
  if (f == Binary::div) memory.y = saved(y);
  return record(std::move(memory), {a, b}, y);
}

// ------------------------------------------------------------------------------------------------------------- others

struct AffineBackward : Backward {
  double alpha = 1;
  const char* name() const override { return "affine"; }
  void run(Grads& g) override {
    if (alpha == 1) return pass_gradient(g, 0, g.dy());
    const GradTarget dx = g.into(0);
    kernels::launch(kernels::Affine{g.dy(), dx.grad, alpha, 0, dx.accumulate});
  }
};

/// y = alpha x + beta with the shape of x, contiguous, in `dtype`: also copying and casting.
Tensor affine_to(const Tensor& x, DType dtype, double alpha, double beta) {
  Tensor y = Tensor::empty(x.shape(), dtype, x.device());
  kernels::launch(kernels::Affine{x, y, alpha, beta});
  AffineBackward memory;
  memory.alpha = alpha;
  return record(std::move(memory), {x}, y);
}

struct DropoutBackward : Backward {
  float p = 0;
  Philox random;
  const char* name() const override { return "dropout"; }
  void run(Grads& g) override {
    const GradTarget dx = g.into(0);
    kernels::launch(kernels::Dropout{g.dy(), dx.grad, p, random, dx.accumulate});
  }
};

struct SwigluNode : Backward {
  Tensor x;
  const char* name() const override { return "swiglu"; }
  void run(Grads& g) override {
    const GradTarget dx = g.into(0);
    kernels::launch(kernels::SwigluBackward{x, as_rows(g.dy()), as_rows(dx.grad), dx.accumulate});
  }
};

struct RotaryBackward : Backward {
  kernels::Rotary forward;
  const char* name() const override { return "rotary"; }
  void run(Grads& g) override {  // a rotation's transpose is its inverse
    const GradTarget dx = g.into(0);
    kernels::Rotary turn = forward;
    turn.x = g.dy();
    turn.y = dx.grad;
    turn.accumulate = dx.accumulate;
    turn.inverse = true;
    kernels::launch(turn);
  }
};

}  // namespace

Tensor neg(const Tensor& x) { return unary(Unary::neg, x); }
Tensor exp(const Tensor& x) { return unary(Unary::exp, x); }
Tensor log(const Tensor& x) { return unary(Unary::log, x); }
Tensor sqrt(const Tensor& x) { return unary(Unary::sqrt, x); }
Tensor square(const Tensor& x) { return unary(Unary::square, x); }
Tensor relu(const Tensor& x) { return unary(Unary::relu, x); }
Tensor gelu(const Tensor& x) { return unary(Unary::gelu, x); }
Tensor gelu_tanh(const Tensor& x) { return unary(Unary::gelu_tanh, x); }
Tensor silu(const Tensor& x) { return unary(Unary::silu, x); }
Tensor tanh(const Tensor& x) { return unary(Unary::tanh, x); }
Tensor sigmoid(const Tensor& x) { return unary(Unary::sigmoid, x); }
Tensor softplus(const Tensor& x) { return unary(Unary::softplus, x); }

Tensor add(const Tensor& a, const Tensor& b) { return binary(Binary::add, a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return binary(Binary::sub, a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary(Binary::mul, a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return binary(Binary::div, a, b); }

Tensor affine(const Tensor& x, double alpha, double beta) {
  require_float("affine", x, "x");
  return affine_to(x, x.dtype(), alpha, beta);
}

Tensor contiguous(const Tensor& x) { return x.is_contiguous() ? x : affine_to(x, x.dtype(), 1, 0); }

Tensor cast(const Tensor& x, DType dtype) {
  require_float("cast", x, "x");
  require<DTypeError>(dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16,
                      "[cast] to {}: f64, f32 or bf16 is needed", to_string(dtype));
  return x.dtype() == dtype ? x : affine_to(x, dtype, 1, 0);
}

Tensor dropout(const Tensor& input, float p, const Philox& random) {
  require_float("dropout", input, "x");
  require<ConfigError>(p >= 0 && p < 1, "[dropout] probability {} is outside [0, 1)", p);
  if (p == 0) return input;
  const Tensor x = contiguous(input);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  kernels::launch(kernels::Dropout{x, y, p, random});
  DropoutBackward memory;
  memory.p = p;
  memory.random = random;
  return record(std::move(memory), {x}, y);
}

Tensor swiglu(const Tensor& input) {
  require_float("swiglu", input, "x");
  require<ShapeError>(input.rank() >= 1 && input.size(-1) % 2 == 0,
                      "[swiglu] x {}: the last axis holds gate and value, so its size must be even",
                      to_string(input.shape()));
  const Tensor x = contiguous(input);
  Tensor y = Tensor::empty(x.shape().with(-1, x.size(-1) / 2), x.dtype(), x.device());
  kernels::launch(kernels::SwigluForward{as_rows(x), as_rows(y)});
  SwigluNode memory;
  memory.x = saved(as_rows(x));
  return record(std::move(memory), {x}, y);
}

Tensor rotary(const Tensor& input, double base, int64_t offset, bool interleaved) {
  require_float("rotary", input, "x");
  require<ShapeError>(input.rank() == 4 && input.size(3) % 2 == 0,
                      "[rotary] x {}: [B, T, h, D] with an even D is needed", to_string(input.shape()));
  const Tensor x = input.stride(-1) == 1 ? input : contiguous(input);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  RotaryBackward memory;
  memory.forward.base = base;
  memory.forward.offset = offset;
  memory.forward.interleaved = interleaved;
  kernels::Rotary turn = memory.forward;
  turn.x = x;
  turn.y = y;
  kernels::launch(turn);
  return record(std::move(memory), {x}, y);
}

}  // namespace rapt
