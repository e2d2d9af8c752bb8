#include <ops/support.hpp>

namespace rapt {
namespace {

struct ReduceBackward : Backward {
  double alpha = 1;
  Shape reduced;  // the shape of the result with the rank of x
  const char* name() const override { return "reduce"; }
  void run(Grads& g) override {  // every element of x gets alpha dy
    const GradTarget dx = g.into(0);
    const Tensor dy = g.dy().view(reduced);
    Shape ones = reduced;
    for (int i = 0; i < ones.rank(); ++i) ones[i] = 1;
    const Tensor one = Tensor::full(ones, 1, dy.dtype());
    kernels::launch(kernels::BinaryForward{kernels::Binary::mul, dy, one, dx.grad, alpha, dx.accumulate});
  }
};

/// y = alpha sum of x over the axes where `reduced` has size 1.
Tensor reduce(const Tensor& x, const Shape& reduced, double alpha) {
  require_float("sum", x, "x");
  Tensor y = Tensor::empty(reduced, x.dtype(), x.device());
  kernels::Reduce op;
  op.x = x;
  op.y = y;
  op.alpha = alpha;
  kernels::launch(op);
  ReduceBackward memory;
  memory.alpha = alpha;
  memory.reduced = reduced;
  return record(std::move(memory), {x}, y);
}

Tensor reduce_all(const Tensor& x, double alpha) {
  if (x.rank() == 0) return affine(x, alpha);
  Shape ones = x.shape();
  for (int i = 0; i < ones.rank(); ++i) ones[i] = 1;
  return reduce(x, ones, alpha).view(Shape{});
}

struct ConcatBackward : Backward {
  int axis = 0;
  std::vector<int64_t> sizes;
  const char* name() const override { return "concat"; }
  void run(Grads& g) override {
    const Tensor dy = g.dy();
    int64_t begin = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (g.wants(int(i))) {
        const GradTarget dx = g.into(int(i));
        kernels::launch(kernels::Affine{dy.narrow(axis, begin, sizes[i]), dx.grad, 1, 0, dx.accumulate});
      }
      begin += sizes[i];
    }
  }
};

}  // namespace

Tensor sum(const Tensor& x) { return reduce_all(x, 1); }

Tensor mean(const Tensor& x) {
  require<ShapeError>(x.numel() > 0, "[mean] of no elements: x {}", to_string(x.shape()));
  return reduce_all(x, 1.0 / double(x.numel()));
}

Tensor sum(const Tensor& x, int axis) { return reduce(x, x.shape().with(axis, 1), 1); }

Tensor concat(const std::vector<Tensor>& parts, int axis) {
  require<ShapeError>(!parts.empty(), "[concat] of no tensors");
  const int a = parts[0].shape().axis(axis);
  ConcatBackward memory;
  memory.axis = a;
  int64_t total = 0;
  for (const Tensor& part : parts) {
    require_dtype("concat", part, "a part", parts[0].dtype());
    require<ShapeError>(part.rank() == parts[0].rank() && part.shape().with(a, 0) == parts[0].shape().with(a, 0),
                        "[concat] {} and {} differ outside axis {}", to_string(parts[0].shape()),
                        to_string(part.shape()), a);
    memory.sizes.push_back(part.size(a));
    total += part.size(a);
  }
  Tensor y = Tensor::empty(parts[0].shape().with(a, total), parts[0].dtype(), parts[0].device());
  int64_t begin = 0;
  for (const Tensor& part : parts) {
    kernels::launch(kernels::Affine{part, y.narrow(a, begin, part.size(a))});
    begin += part.size(a);
  }
  record(std::make_unique<ConcatBackward>(std::move(memory)), parts, std::span(&y, 1));
  return y;
}

Tensor stack(const std::vector<Tensor>& parts, int axis) {
  std::vector<Tensor> raised;
  for (const Tensor& part : parts) raised.push_back(part.view(part.shape().inserted(axis, 1)));
  return concat(raised, axis);
}

}  // namespace rapt
