#include <ops/support.hpp>

namespace rapt {

void require_lengths(const char* op, const Tensor& lengths, int64_t batch, int64_t limit) {
  if (!lengths) return;
  require_dtype(op, lengths, "lengths", DType::i32);
  require_shape(op, lengths, "lengths", {batch});
  require<ShapeError>(lengths.is_contiguous(), "[{}] lengths must be contiguous", op);
  const int32_t* values = lengths.data<int32_t>();
  for (int64_t b = 0; b < batch; ++b)
    require<IndexError>(values[b] >= 0 && values[b] <= limit, "[{}] length {} of sequence {} is outside [0, {}]", op,
                        values[b], b, limit);
}

void pass_gradient(Grads& g, int input, const Tensor& grad) {
  if (!g.wants(input) || g.pass(input, grad)) return;
  const GradTarget target = g.into(input);
  kernels::Affine copy;
  copy.x = grad.view(target.grad.shape());
  copy.y = target.grad;
  copy.accumulate = target.accumulate;
  kernels::launch(copy);
}

}  // namespace rapt
