#include <ops/support.hpp>

namespace rapt {
namespace {

struct SoftmaxNode : Backward {
  Tensor y;
  bool log = false;
  const char* name() const override { return "softmax"; }
  void run(Grads& g) override {
    const GradTarget dx = g.into(0);
    kernels::launch(kernels::SoftmaxBackward{y, as_rows(g.dy()), as_rows(dx.grad), log, dx.accumulate});
  }
};

Tensor softmax_rows(const Tensor& input, const Tensor& lengths, bool log) {
  require_float("softmax", input, "x");
  const Tensor x = contiguous(input);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  kernels::SoftmaxForward op;
  op.x = as_rows(x);
  op.y = as_rows(y);
  op.log = log;
  if (lengths) {
    const int64_t rows = op.x.size(0), groups = lengths.numel();
    require_lengths("softmax", lengths, groups, x.size(-1));
    require<ShapeError>(groups > 0 ? rows % groups == 0 : rows == 0,
                        "[softmax] {} rows and {} lengths: rows per length must be whole", rows, groups);
    op.lengths = lengths;
    op.repeat = std::max<int64_t>(1, rows / std::max<int64_t>(1, groups));
  }
  kernels::launch(op);
  SoftmaxNode memory;
  memory.y = saved(op.y);
  memory.log = log;
  return record(std::move(memory), {x}, y);
}

}  // namespace

Tensor softmax(const Tensor& x, const Tensor& lengths) { return softmax_rows(x, lengths, false); }
Tensor log_softmax(const Tensor& x) { return softmax_rows(x, {}, true); }

}  // namespace rapt
