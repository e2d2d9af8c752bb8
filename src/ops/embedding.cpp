#include <ops/support.hpp>

namespace rapt {
namespace {

void require_ids(const char* op, const Tensor& ids, int64_t vocabulary) {
  require_dtype(op, ids, "ids", DType::i32);
  require<ShapeError>(ids.is_contiguous(), "[{}] ids must be contiguous", op);
  const int32_t* values = ids.data<int32_t>();
  for (int64_t n = 0, count = ids.numel(); n < count; ++n)
    require<IndexError>(values[n] >= 0 && values[n] < vocabulary, "[{}] id {} at position {} is outside [0, {})", op,
                        values[n], n, vocabulary);
}

struct EmbeddingBackward : Backward {
  Tensor ids;
  double scale = 1;
  int64_t length = 0, offset = 0;

  const char* name() const override { return "embedding"; }
  void run(Grads& g) override {
    const Tensor dy = as_rows(g.dy());
    if (g.wants(0)) {
      const GradTarget dW = g.into(0);
      kernels::launch(kernels::EmbeddingBackward{ids, dy, dW.grad, scale, dW.accumulate});
    }
    if (g.wants(1)) {  // learned positions: dP[offset + t] += sum over the batch
      const GradTarget dP = g.into(1);
      if (!dP.accumulate) dP.grad.fill(0);
      const Tensor rows = dP.grad.narrow(0, offset, length);
      kernels::Reduce reduce;
      reduce.x = dy.view({length > 0 ? dy.size(0) / length : 0, length, dy.size(1)});
      reduce.y = rows.view(rows.shape().inserted(0, 1));
      reduce.accumulate = true;
      kernels::launch(reduce);
    }
  }
};

struct GatherBackward : Backward {
  Tensor ids;
  const char* name() const override { return "gather_rows"; }
  void run(Grads& g) override {
    const GradTarget dx = g.into(0);
    kernels::launch(kernels::EmbeddingBackward{ids, g.dy(), dx.grad, 1, dx.accumulate});
  }
};

}  // namespace

Tensor embedding(const Tensor& ids, const Tensor& table, const EmbeddingOptions& options) {
  require<ShapeError>(table.rank() == 2 && table.size(1) > 0 && ids.rank() >= 1,
                      "[embedding] ids {} and W {}: ids [.., T] and W [V, D] are needed", to_string(ids.shape()),
                      to_string(table.shape()));
  require<DTypeError>(options.dtype == DType::f64 || options.dtype == DType::f32 || options.dtype == DType::bf16,
                      "[embedding] to {}: f64, f32 or bf16 is needed", to_string(options.dtype));
  const Tensor W = contiguous(table), P = options.positions ? contiguous(options.positions) : options.positions;
  require_dtype("embedding", W, "W", wide(options.dtype));
  require_ids("embedding", ids, W.size(0));
  const int64_t length = ids.size(-1), D = W.size(1);
  if (P) {
    require_dtype("embedding", P, "positions", W.dtype());
    require<ShapeError>(P.rank() == 2 && P.size(1) == D, "[embedding] positions {} for vectors of {}",
                        to_string(P.shape()), D);
    require<IndexError>(
        options.offset >= 0 && length <= P.size(0) && options.offset <= P.size(0) - length,
        "[embedding] {} positions from {} on are asked for, the table has {}: the sequence is too long for "
        "this model",
        length, options.offset, P.size(0));
  }
  Tensor y = Tensor::empty(ids.shape().inserted(ids.rank(), D), options.dtype, W.device());
  kernels::EmbeddingForward op;
  op.ids = ids.view({-1});
  op.weight = W;
  op.positions = P;
  op.y = as_rows(y);
  op.length = std::max<int64_t>(1, length);
  op.position_offset = options.offset;
  op.scale = options.scale;
  kernels::launch(op);
  EmbeddingBackward memory;
  memory.ids = op.ids;
  memory.scale = options.scale;
  memory.length = length;
  memory.offset = options.offset;
  return record(std::move(memory), {W, P}, y);
}

Tensor gather_rows(const Tensor& x, const Tensor& ids) {
  require_float("gather_rows", x, "x");
  require<ShapeError>(x.rank() == 2 && ids.rank() == 1,
                      "[gather_rows] x {} and ids {}: x [V, D] and ids [N] are needed", to_string(x.shape()),
                      to_string(ids.shape()));
  require_ids("gather_rows", ids, x.size(0));
  const Tensor table = contiguous(x);
  Tensor y = Tensor::empty({ids.size(0), x.size(1)}, x.dtype(), x.device());
  kernels::launch(kernels::GatherRows{table, ids, y});
  GatherBackward memory;
  memory.ids = ids;
  return record(std::move(memory), {table}, y);
}

}  // namespace rapt
