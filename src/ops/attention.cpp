#include <ops/support.hpp>

#include <cmath>

namespace rapt {
namespace {

struct AttentionNode : Backward {
  kernels::AttentionBackward op;  // everything but dq, dk, dv and d_o

  const char* name() const override { return "attention"; }
  void run(Grads& g) override {
    op.d_o = g.dy();
    auto place = [&](int input, const Tensor& like, Tensor& grad, bool& accumulate) {
      if (!g.wants(input)) {  // the kernel makes all three together
        grad = Tensor::empty(like.shape(), like.dtype(), like.device());
        return;
      }
      const GradTarget target = g.into(input);
      grad = target.grad;
      accumulate = target.accumulate;
    };
    place(0, op.q, op.dq, op.accumulate_dq);
    place(1, op.k, op.dk, op.accumulate_dk);
    place(2, op.v, op.dv, op.accumulate_dv);
    kernels::launch(op);
  }
};

Tensor unit_last_axis(const Tensor& t) { return t.stride(-1) == 1 || t.size(-1) == 1 ? t : contiguous(t); }

void check(const Tensor& Q, const Tensor& K, const Tensor& V, const AttentionOptions& options) {
  require_float("attention", Q, "Q");
  require_dtype("attention", K, "K", Q.dtype());
  require_dtype("attention", V, "V", Q.dtype());
  const bool shaped = Q.rank() == 4 && K.rank() == 4 && V.rank() == 4 && K.size(0) == Q.size(0) &&
                      V.size(0) == Q.size(0) && K.size(1) == V.size(1) && K.size(2) == V.size(2) &&
                      K.size(3) == Q.size(3);
  require<ShapeError>(shaped,
                      "[attention] Q {}, K {}, V {}: Q [B, Tq, h, d_k], K [B, Tk, g, d_k] and V [B, Tk, g, d_v] are "
                      "needed",
                      to_string(Q.shape()), to_string(K.shape()), to_string(V.shape()));
  require<ShapeError>(K.size(2) > 0 && Q.size(2) % K.size(2) == 0,
                      "[attention] {} query heads cannot share {} key heads evenly", Q.size(2), K.size(2));
  require<ShapeError>(Q.size(3) > 0, "[attention] d_k is 0");
  require<ShapeError>(!options.causal || K.size(1) >= Q.size(1),
                      "[attention] causal with {} queries and only {} keys: the queries are the last positions",
                      Q.size(1), K.size(1));
  require_lengths("attention", options.lengths, Q.size(0), K.size(1));
  require<ConfigError>(options.p >= 0 && options.p < 1, "[attention] dropout {} is outside [0, 1)", options.p);
  if (options.alibi) {
    require_dtype("attention", options.alibi, "alibi", DType::f32);
    require_shape("attention", options.alibi, "alibi", {Q.size(2)});
  }
}

}  // namespace

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) {
  check(query, key, value, options);
  const Tensor Q = unit_last_axis(query), K = unit_last_axis(key), V = unit_last_axis(value);
  const int64_t B = Q.size(0), Tq = Q.size(1), h = Q.size(2), Tk = K.size(1);
  kernels::AttentionForward op;
  op.q = Q;
  op.k = K;
  op.v = V;
  op.o = Tensor::empty({B, Tq, h, V.size(3)}, Q.dtype(), Q.device());
  op.lse = Tensor::empty({B, h, Tq}, wide(Q.dtype()), Q.device());
  op.mask = {options.lengths, options.causal, options.alibi ? options.alibi.contiguous() : options.alibi};
  op.scale = options.scale != 0 ? options.scale : 1 / std::sqrt(double(Q.size(3)));
  op.p = options.p;
  op.random = options.random;
  if (options.weights) op.weights = *options.weights = Tensor::empty({B, h, Tq, Tk}, wide(Q.dtype()), Q.device());
  kernels::launch(op);
  AttentionNode memory;
  memory.op.q = saved(Q);
  memory.op.k = saved(K);
  memory.op.v = saved(V);
  memory.op.o = saved(op.o);
  memory.op.lse = op.lse;
  memory.op.mask = op.mask;
  memory.op.scale = op.scale;
  memory.op.p = op.p;
  memory.op.random = op.random;
  return record(std::move(memory), {Q, K, V}, op.o);
}

namespace {

struct AdditiveNode : Backward {
  kernels::AdditiveScoresBackward op;
  const char* name() const override { return "additive_scores"; }
  void run(Grads& g) override {
    op.de = g.dy();
    auto place = [&](int input, Tensor& grad, bool& accumulate) {
      if (!g.wants(input)) return;
      const GradTarget target = g.into(input);
      grad = target.grad;
      accumulate = target.accumulate;
    };
    place(0, op.dq, op.accumulate_dq);
    place(1, op.dk, op.accumulate_dk);
    place(2, op.dv, op.accumulate_dv);
    kernels::launch(op);
  }
};

}  // namespace

Tensor additive_scores(const Tensor& query, const Tensor& key, const Tensor& weights) {
  require_float("additive_scores", query, "q");
  require_dtype("additive_scores", key, "k", query.dtype());
  require_dtype("additive_scores", weights, "v", wide(query.dtype()));
  const bool shaped = query.rank() == 3 && key.rank() == 3 && weights.rank() == 1 && query.size(0) == key.size(0) &&
                      query.size(2) == key.size(2) && weights.size(0) == key.size(2);
  require<ShapeError>(shaped, "[additive_scores] q {}, k {}, v {}: q [B, Tq, A], k [B, Tk, A] and v [A] are needed",
                      to_string(query.shape()), to_string(key.shape()), to_string(weights.shape()));
  const Tensor q = contiguous(query), k = contiguous(key), v = contiguous(weights);
  Tensor e = Tensor::empty({q.size(0), q.size(1), k.size(1)}, q.dtype(), q.device());
  kernels::launch(kernels::AdditiveScores{q, k, v, e});
  AdditiveNode memory;
  memory.op.q = saved(q);
  memory.op.k = saved(k);
  memory.op.v = saved(v);
  return record(std::move(memory), {q, k, v}, e);
}

}  // namespace rapt
