#pragma once
// Every fused primitive of ops.hpp once more, in its plain definition: the formula above, simpler primitives below, in
// the wide dtype (f32 for bf16). They are for reading and for the tests, which compare value and gradient; nothing that
// runs in a model calls them. Masks, tables and one-hot rows are constants, so they need no gradient.
#include <ops/support.hpp>

#include <cmath>
#include <vector>

namespace rapt::composite {

/// A constant whose element n (row-major) is f(n).
template <class F>
Tensor constant(const Shape& shape, DType dtype, F f) {
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (size_t n = 0; n < values.size(); ++n) values[n] = double(f(int64_t(n)));
  return Tensor::from(values, shape).to(dtype);
}

inline Tensor widened(const Tensor& x) { return cast(x, wide(x.dtype())); }

inline Tensor activate(const Tensor& x, Activation act) {
  switch (act) {
    case Activation::none: break;
    case Activation::relu: return relu(x);
    case Activation::gelu: return gelu(x);
    case Activation::gelu_tanh: return gelu_tanh(x);
    case Activation::silu: return silu(x);
    case Activation::tanh: return tanh(x);
    case Activation::sigmoid: return sigmoid(x);
  }
  return x;
}

/// y = act(x W^T + b)
inline Tensor linear(const Tensor& x, const Tensor& W, const Tensor& b = {}, Activation act = Activation::none) {
  const Tensor rows = contiguous(widened(x)).view({x.numel() / x.size(-1), x.size(-1)});  // [N, K]
  const Tensor product = matmul(rows, W.transpose(0, 1));                                 // [N, out]
  const Tensor y = activate(b ? add(product, b) : product, act);
  return cast(y, x.dtype()).view(x.shape().with(-1, W.size(0)));
}

/// y_n = x_n m_n / (1 - p),  m_n = [bits16(n) >= 65536 p]
inline Tensor dropout(const Tensor& x, float p, const Philox& random) {
  const auto threshold = uint32_t(std::lround(65536.0 * double(p)));
  const Tensor mask = constant(x.shape(), wide(x.dtype()), [&](int64_t n) {
    return random.bits16(uint64_t(n)) >= threshold ? 1 / (1 - double(p)) : 0.0;
  });
  return cast(mul(widened(x), mask), x.dtype());
}

/// y = silu(g) * u,  x = (g, u)
inline Tensor swiglu(const Tensor& x) {
  const int64_t D = x.size(-1) / 2;
  return cast(mul(silu(widened(x.narrow(-1, 0, D))), widened(x.narrow(-1, D, D))), x.dtype());
}

/// (a, b) -> (a cos - b sin, a sin + b cos),  angle = (offset + t) base^(-2i/D)
inline Tensor rotary(const Tensor& input, double base = 10000, int64_t offset = 0, bool interleaved = false) {
  const Tensor x = contiguous(widened(input));
  const int64_t B = x.size(0), T = x.size(1), h = x.size(2), D = x.size(3), pairs = D / 2;
  const auto angle = [&](int64_t n) {
    return double(offset + n / pairs) * std::pow(base, -2.0 * double(n % pairs) / double(D));
  };
  const Shape table{1, T, 1, pairs};
  const Tensor cosine = constant(table, x.dtype(), [&](int64_t n) { return std::cos(angle(n)); });
  const Tensor sine = constant(table, x.dtype(), [&](int64_t n) { return std::sin(angle(n)); });
  const Tensor split = x.view(interleaved ? Shape{B, T, h, pairs, 2} : Shape{B, T, h, 2, pairs});
  const int pair_axis = interleaved ? 4 : 3;
  const Tensor a = split.select(pair_axis, 0), b = split.select(pair_axis, 1);  // [B, T, h, D/2]
  const Tensor turned = stack({sub(mul(a, cosine), mul(b, sine)), add(mul(a, sine), mul(b, cosine))}, pair_axis);
  return cast(turned.view(x.shape()), input.dtype());
}

/// Row n is 1 at ids_n and 0 elsewhere: [N, V].
inline Tensor one_hot(const Tensor& ids, int64_t V, DType dtype) {
  const std::vector<double> values = ids.to_vector();
  return constant({ids.numel(), V}, dtype, [&](int64_t n) { return int64_t(values[size_t(n / V)]) == n % V; });
}

/// y = scale onehot(ids) W + P[offset + t]
inline Tensor embedding(const Tensor& ids, const Tensor& W, const EmbeddingOptions& options) {
  const Tensor rows = affine(matmul(one_hot(ids, W.size(0), W.dtype()), W), options.scale);
  Tensor y = rows.view(ids.shape().inserted(ids.rank(), W.size(1)));
  if (options.positions) y = add(y, options.positions.narrow(0, options.offset, ids.size(-1)));
  return cast(y, options.dtype);
}

/// y = onehot(ids) x
inline Tensor gather_rows(const Tensor& x, const Tensor& ids) {
  return cast(matmul(one_hot(ids, x.size(0), wide(x.dtype())), widened(x)), x.dtype());
}

/// layer: (x - mean) / sqrt(var + eps) * gain + bias;  rms: x / sqrt(mean x^2 + eps) * gain
inline Tensor norm(const Tensor& input, const Tensor& gain, const Tensor& bias, const NormOptions& options) {
  const double per_feature = 1 / double(input.size(-1));
  Tensor x = widened(input);
  if (options.kind == NormKind::layer) x = sub(x, affine(sum(x, -1), per_feature));
  const Tensor deviation = sqrt(affine(sum(square(x), -1), per_feature, options.eps));
  const Tensor y = mul(div(x, deviation), gain);
  return cast(bias ? add(y, bias) : y, input.dtype());
}

/// sum = x + dropout(r);  y = norm(sum)
inline AddNorm add_norm(const Tensor& x, const Tensor& r, const Tensor& gain, const Tensor& bias,
                        const NormOptions& options, float p = 0, const Philox& random = {}) {
  const Tensor s = add(widened(x), widened(composite::dropout(r, p, random)));
  return {cast(s, x.dtype()), cast(composite::norm(s, gain, bias, options), x.dtype())};
}

/// y_j = [j visible] e^(x_j) / sum of the visible e^(x_j), and 0 in a row that sees nothing. `visible` is 0 or 1.
inline Tensor masked_softmax(const Tensor& x, const Tensor& visible) {
  const Tensor e = mul(exp(x), visible);
  const std::vector<double> seen = sum(visible, -1).to_vector();
  const Tensor blind = constant(x.shape().with(-1, 1), x.dtype(), [&](int64_t n) { return seen[size_t(n)] == 0; });
  return div(e, add(sum(e, -1), blind));
}

inline Tensor softmax(const Tensor& x, const Tensor& lengths = {}) {
  const int64_t D = x.size(-1), rows = x.numel() / D;
  const std::vector<double> length = lengths ? lengths.to_vector() : std::vector<double>(1, double(D));
  const int64_t repeat = rows / int64_t(length.size());
  const Tensor visible =
      constant(x.shape(), wide(x.dtype()), [&](int64_t n) { return double(n % D) < length[size_t(n / D / repeat)]; });
  return cast(masked_softmax(widened(x), visible), x.dtype());
}

/// x - log sum e^x
inline Tensor log_softmax(const Tensor& x) {
  const Tensor z = widened(x);
  return cast(sub(z, log(sum(exp(z), -1))), x.dtype());
}

/// -1/n sum over rows that count of sum_v q_v log softmax(z)_v,  q = (1 - e) onehot(t) + e / V
inline Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {}) {
  const int64_t V = logits.size(-1), rows = logits.numel() / V;
  const std::vector<double> target = targets.to_vector();
  double counted = 0;
  for (double t : target) counted += t != double(options.ignore);
  const Tensor q = constant({rows, V}, wide(logits.dtype()), [&](int64_t n) {
    const double t = target[size_t(n / V)];
    if (t == double(options.ignore)) return 0.0;
    return (1 - options.smoothing) * (t == double(n % V)) + options.smoothing / double(V);
  });
  const Tensor log_p = composite::log_softmax(contiguous(widened(logits)).view({rows, V}));
  return affine(sum(mul(q, log_p)), -1 / (options.normaliser > 0 ? options.normaliser : counted));
}

inline Tensor projected_cross_entropy(const Tensor& x, const Tensor& W, const Tensor& b, const Tensor& targets,
                                      const CrossEntropyOptions& options = {}) {
  return composite::cross_entropy(composite::linear(widened(x), W, b), targets, options);
}

/// Key head i / (h / g) for every query head i: [B, T, g, d] -> [B, T, h, d].
inline Tensor repeat_heads(const Tensor& x, int64_t h) {
  std::vector<Tensor> heads;
  for (int64_t i = 0; i < h; ++i) heads.push_back(x.narrow(2, i / (h / x.size(2)), 1));
  return concat(heads, 2);
}

/// 1 where query i of batch b may see key j:  j < lengths_b and, when causal, j <= i + Tk - Tq.  [B, h, Tq, Tk]
inline Tensor visible_keys(const Shape& shape, DType dtype, const AttentionOptions& options) {
  const int64_t h = shape[1], Tq = shape[2], Tk = shape[3];
  const std::vector<double> lengths = options.lengths ? options.lengths.to_vector() : std::vector<double>();
  return constant(shape, dtype, [&](int64_t n) {
    const int64_t j = n % Tk, i = n / Tk % Tq, b = n / Tk / Tq / h;
    return (lengths.empty() || double(j) < lengths[size_t(b)]) && (!options.causal || j <= i + Tk - Tq);
  });
}

/// -slope_head |i + Tk - Tq - j|  [1, h, Tq, Tk]
inline Tensor alibi_bias(const Tensor& slopes, int64_t Tq, int64_t Tk, DType dtype) {
  const std::vector<double> slope = slopes.to_vector();
  return constant({1, slopes.numel(), Tq, Tk}, dtype, [&](int64_t n) {
    const int64_t j = n % Tk, i = n / Tk % Tq, head = n / Tk / Tq;
    return -slope[size_t(head)] * std::abs(double(i + Tk - Tq - j));
  });
}

/// O = dropout(softmax(scale Q K^T + bias, visible)) V, head by head
inline Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) {
  const int64_t h = query.size(2), Tq = query.size(1), Tk = key.size(1);
  const Tensor Q = widened(query).transpose(1, 2);                   // [B, h, Tq, d_k]
  const Tensor K = repeat_heads(widened(key), h).transpose(1, 2);    // [B, h, Tk, d_k]
  const Tensor V = repeat_heads(widened(value), h).transpose(1, 2);  // [B, h, Tk, d_v]
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(double(query.size(3)));
  Tensor S = affine(matmul(Q, K.transpose(2, 3)), scale);  // [B, h, Tq, Tk]
  if (options.alibi) S = add(S, alibi_bias(options.alibi, Tq, Tk, S.dtype()));
  const Tensor P = masked_softmax(S, visible_keys(S.shape(), S.dtype(), options));
  const Tensor O = matmul(composite::dropout(P, options.p, options.random), V);  // [B, h, Tq, d_v]
  return cast(O.transpose(1, 2), query.dtype());                                 // [B, Tq, h, d_v]
}

/// e_ij = sum_a v_a tanh(q_ia + k_ja)
inline Tensor additive_scores(const Tensor& query, const Tensor& key, const Tensor& v) {
  const int64_t B = query.size(0), Tq = query.size(1), Tk = key.size(1), A = query.size(2);
  const Tensor q = contiguous(widened(query)).view({B, Tq, 1, A}), k = contiguous(widened(key)).view({B, 1, Tk, A});
  return cast(sum(mul(tanh(add(q, k)), v), -1).view({B, Tq, Tk}), query.dtype());
}

/// `after` in the rows with step < lengths_b, `before` in the others
inline Tensor where_running(const Tensor& after, const Tensor& before, const Tensor& lengths, int64_t step) {
  if (!lengths) return after;
  const std::vector<double> length = lengths.to_vector();
  const auto running = [&](int64_t b) { return double(step) < length[size_t(b)]; };
  const Shape rows{after.size(0), 1};
  const Tensor keep = constant(rows, after.dtype(), running);
  const Tensor drop = constant(rows, after.dtype(), [&](int64_t b) { return !running(b); });
  return add(mul(after, keep), mul(before, drop));
}

/// rnn   h' = tanh(gx + gh)
/// lstm  i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of gx + gh;  c' = f c + i g;  h' = o tanh(c')
/// gru   r, z = sigmoid(gx + gh);  n = tanh(gx_n + r gh_n);  h' = (1 - z) n + z h
inline CellState cell_step(Cell cell, const Tensor& gates_x, const Tensor& gates_h, const CellState& state,
                           const Tensor& lengths = {}, int64_t step = 0) {
  const Tensor gx = widened(gates_x), gh = widened(gates_h), h = widened(state.h);
  const int64_t H = h.size(1);
  const auto part = [H](const Tensor& gates, int64_t i) { return gates.narrow(1, i * H, H); };
  const auto gate = [&](int64_t i) { return add(part(gx, i), part(gh, i)); };
  Tensor h_next, c_next;
  if (cell == Cell::rnn) {
    h_next = tanh(gate(0));
  } else if (cell == Cell::lstm) {
    const Tensor c = widened(state.c);
    const Tensor i = sigmoid(gate(0)), f = sigmoid(gate(1)), g = tanh(gate(2)), o = sigmoid(gate(3));
    c_next = add(mul(f, c), mul(i, g));
    h_next = mul(o, tanh(c_next));
    c_next = cast(where_running(c_next, c, lengths, step), gates_x.dtype());
  } else {
    const Tensor r = sigmoid(gate(0)), z = sigmoid(gate(1));
    const Tensor n = tanh(add(part(gx, 2), mul(r, part(gh, 2))));
    h_next = add(mul(affine(z, -1, 1), n), mul(z, h));
  }
  return {cast(where_running(h_next, h, lengths, step), gates_x.dtype()), c_next};
}

}  // namespace rapt::composite
