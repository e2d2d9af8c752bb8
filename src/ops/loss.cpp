#include <ops/support.hpp>

namespace rapt {
namespace {

/// Checks the targets and returns how many count.
int64_t count_targets(const Tensor& targets, const Shape& leading, int64_t vocabulary,
                      const CrossEntropyOptions& options) {
  require_dtype("cross_entropy", targets, "targets", DType::i32);
  require_shape("cross_entropy", targets, "targets", leading);
  require<ShapeError>(targets.is_contiguous(), "[cross_entropy] targets must be contiguous");
  require<ConfigError>(options.normaliser >= 0,
                       "[cross_entropy] a normaliser of {}: above 0, or 0 for the number of targets",
                       options.normaliser);
  const int64_t rows = targets.numel();
  require<ConfigError>(options.smoothing >= 0 && options.smoothing < 1,
                       "[cross_entropy] smoothing {} is outside [0, 1)", options.smoothing);
  const int32_t* values = targets.data<int32_t>();
  int64_t count = 0;
  for (int64_t n = 0; n < rows; ++n) {
    if (values[n] == options.ignore) continue;
    require<IndexError>(values[n] >= 0 && values[n] < vocabulary,
                        "[cross_entropy] target {} in row {} is outside [0, {})", values[n], n, vocabulary);
    ++count;
  }
  return count;
}

double scale_for(int64_t count, const CrossEntropyOptions& options) {
  const double normaliser = options.normaliser > 0 ? options.normaliser : double(count);
  return normaliser > 0 ? 1 / normaliser : 0;
}

Tensor total(const Tensor& losses, double scale) {
  Tensor loss = Tensor::empty({1}, losses.dtype(), losses.device());
  kernels::Reduce reduce;
  reduce.x = losses;
  reduce.y = loss;
  reduce.alpha = scale;
  kernels::launch(reduce);
  return loss.view(Shape{});
}

/// The gradients are made in the forward pass, when the logits are at hand; backward only scales them.
struct LossBackward : Backward {
  std::vector<Tensor> grads;  // one an input; undefined where none is wanted
  const char* name() const override { return "cross_entropy"; }
  void run(Grads& g) override {
    const double dy = g.dy().item();
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i]) continue;
      if (dy == 1) {
        pass_gradient(g, int(i), grads[i]);
      } else {
        const GradTarget target = g.into(int(i));
        kernels::launch(kernels::Affine{grads[i].view(target.grad.shape()), target.grad, dy, 0, target.accumulate});
      }
    }
  }
};

struct LossRows {
  Tensor targets, losses, hits;  // [N]
};

LossRows rows_of(const Tensor& targets, int64_t rows, DType dtype, const CrossEntropyOptions& options) {
  LossRows r{targets.view({rows}), Tensor::empty({rows}, wide(dtype)), {}};
  if (options.hits) r.hits = *options.hits = Tensor::empty({rows}, DType::i32);
  return r;
}

kernels::CrossEntropy chunk_of(const LossRows& rows, int64_t begin, int64_t count, const Tensor& logits,
                               const CrossEntropyOptions& options, double scale) {
  kernels::CrossEntropy op;
  op.logits = logits;
  op.targets = rows.targets.narrow(0, begin, count);
  op.loss = rows.losses.narrow(0, begin, count);
  if (rows.hits) op.hits = rows.hits.narrow(0, begin, count);
  op.smoothing = options.smoothing;
  op.scale = scale;
  op.ignore = options.ignore;
  return op;
}

/// The gradient buffers of x W^T + b that the chunks fill.
struct ProjectionGrads {
  Tensor dx, dW, db;

  void add_chunk(const Tensor& x, const Tensor& W, const Tensor& dlogits, int64_t begin) const {
    const int64_t rows = x.size(0);
    if (dx) {
      kernels::Gemm gemm;
      gemm.a = dlogits;
      gemm.b = W;
      gemm.c = dx.narrow(0, begin, rows);
      gemm.b_is_weight = true;
      kernels::launch(gemm);
    }
    if (dW) {
      kernels::Gemm gemm;
      gemm.a = dlogits.transpose(0, 1);
      gemm.b = x;
      gemm.c = dW;
      gemm.accumulate = begin > 0;
      kernels::launch(gemm);
    }
    if (db) {
      kernels::Reduce reduce;
      reduce.x = dlogits;
      reduce.y = db.view({1, -1});
      reduce.accumulate = begin > 0;
      kernels::launch(reduce);
    }
  }
};

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  require_float("cross_entropy", logits, "logits");
  const Tensor z = contiguous(logits), rows = as_rows(z);
  const int64_t N = rows.size(0);
  const double scale = scale_for(count_targets(targets, z.shape().without(-1), rows.size(1), options), options);
  const LossRows loss_rows = rows_of(targets, N, z.dtype(), options);
  kernels::CrossEntropy op = chunk_of(loss_rows, 0, N, rows, options, scale);
  LossBackward memory;
  if (wants_grad({&z})) {
    op.dlogits = Tensor::empty(rows.shape(), z.dtype(), z.device());
    memory.grads = {op.dlogits.view(z.shape())};
  }
  kernels::launch(op);
  return record(std::move(memory), {z}, total(loss_rows.losses, scale));
}

Tensor projected_cross_entropy(const Tensor& input, const Tensor& W, const Tensor& bias, const Tensor& targets,
                               const CrossEntropyOptions& options) {
  require_float("cross_entropy", input, "x");
  require_dtype("cross_entropy", W, "W", wide(input.dtype()));
  require<ShapeError>(input.rank() >= 1 && W.rank() == 2 && input.size(-1) == W.size(1),
                      "[cross_entropy] inner dimensions differ: x {} and W {}; x W^T needs as many columns in both",
                      to_string(input.shape()), to_string(W.shape()));
  require<ShapeError>(W.size(0) > 0 && W.size(1) > 0, "[cross_entropy] W {}: every size must be at least 1",
                      to_string(W.shape()));
  if (bias) {
    require_dtype("cross_entropy", bias, "b", wide(input.dtype()));
    require_shape("cross_entropy", bias, "b", {W.size(0)});
  }
  const Tensor b = bias ? contiguous(bias) : bias;
  const Tensor x = contiguous(input), rows = as_rows(x);
  const int64_t N = rows.size(0), V = W.size(0);
  const double scale = scale_for(count_targets(targets, x.shape().without(-1), V, options), options);
  const LossRows loss_rows = rows_of(targets, N, x.dtype(), options);

  ProjectionGrads grads;
  if (grad_enabled()) {
    if (x.requires_grad()) grads.dx = Tensor::empty(rows.shape(), x.dtype(), x.device());
    if (W.requires_grad()) grads.dW = Tensor::empty(W.shape(), W.dtype(), W.device());
    if (b.requires_grad()) grads.db = Tensor::empty(b.shape(), b.dtype(), b.device());
  }
  const bool want = grads.dx || grads.dW || grads.db;
  // 256 rows keep the product efficient while their logits are a small part of [N, V].
  const int64_t chunk = std::max<int64_t>(1, std::min(N, options.chunk_rows > 0 ? options.chunk_rows : 256));
  const Tensor logits = Tensor::empty({chunk, V}, x.dtype(), x.device());
  for (int64_t begin = 0; begin < N; begin += chunk) {
    const int64_t count = std::min(chunk, N - begin);
    kernels::Gemm project;
    project.a = rows.narrow(0, begin, count);
    project.b = W.transpose(0, 1);
    project.c = logits.narrow(0, 0, count);
    project.bias = b;
    project.b_is_weight = true;
    kernels::launch(project);
    kernels::CrossEntropy op = chunk_of(loss_rows, begin, count, project.c, options, scale);
    if (want) op.dlogits = op.logits;
    kernels::launch(op);
    if (want) grads.add_chunk(project.a, W, op.dlogits, begin);
  }
  if (N == 0) {
    if (grads.dW) grads.dW.fill(0);
    if (grads.db) grads.db.fill(0);
  }
  LossBackward memory;
  memory.grads = {grads.dx ? grads.dx.view(x.shape()) : Tensor{}, grads.dW, grads.db};
  return record(std::move(memory), {x, W, b}, total(loss_rows.losses, scale));
}

Tensor binary_cross_entropy(const Tensor& logits, const Tensor& y) {
  require_shape("binary_cross_entropy", y, "y", logits.shape());
  return mean(sub(softplus(logits), mul(logits, y)));
}

Tensor mean_squared_error(const Tensor& x, const Tensor& y) {
  require_shape("mean_squared_error", y, "y", x.shape());
  return mean(square(sub(x, y)));
}

}  // namespace rapt
