// The reference kernels against values exported from PyTorch (tools/goldens/ops.py), in f64.
#include <kernels/kernels.hpp>
#include <support/compare.hpp>
#include <support/goldens.hpp>

#include <gtest/gtest.h>

namespace rapt::testing {
namespace {

using namespace kernels;

/// One case of the file: its tensors by their short names.
struct Golden {
  std::string name;
  explicit Golden(std::string case_name) : name(std::move(case_name)) {}
  const Tensor& operator[](const std::string& tensor) const {
    static const Goldens file("ops.safetensors");
    return file[name + "/" + tensor];
  }
  void expect(const std::string& tensor, const Tensor& got) const {
    EXPECT_LE(relative_error(got, (*this)[tensor]), 1e-12) << name << "/" << tensor;
  }
};

template <class Args>
void run(const Args& args) {
  implementations<Args>().back().run(args);
}

/// Room for a result: NaN until it is written.
Tensor room(const Shape& shape) { return Tensor::full(shape, std::nan(""), DType::f64); }
Tensor like(const Tensor& t) { return room(t.shape()); }

Tensor product(const Tensor& a, const Tensor& b) {
  Gemm op;
  op.a = a, op.b = b, op.c = room({a.size(0), b.size(1)});
  run(op);
  return op.c;
}
Tensor column_sums(const Tensor& x) {
  const Tensor sums = room({1, x.size(1)});
  run(Reduce{x, sums, 1, false});
  return sums.view({x.size(1)});
}

const std::vector<std::pair<std::string, Activation>> kActivations = {
    {"none", Activation::none},           {"relu", Activation::relu}, {"gelu", Activation::gelu},
    {"gelu_tanh", Activation::gelu_tanh}, {"silu", Activation::silu}, {"tanh", Activation::tanh},
    {"sigmoid", Activation::sigmoid}};
const std::vector<std::pair<std::string, Unary>> kUnaries = {
    {"neg", Unary::neg},       {"exp", Unary::exp},   {"log", Unary::log},         {"sqrt", Unary::sqrt},
    {"square", Unary::square}, {"relu", Unary::relu}, {"gelu", Unary::gelu},       {"gelu_tanh", Unary::gelu_tanh},
    {"silu", Unary::silu},     {"tanh", Unary::tanh}, {"sigmoid", Unary::sigmoid}, {"softplus", Unary::softplus}};

TEST(Torch, Linear) {
  for (const auto& [name, activation] : kActivations) {
    const Golden g("linear_" + name);
    Gemm op;
    op.a = g["x"], op.b = g["w"].transpose(0, 1), op.bias = g["b"], op.c = like(g["y"]);
    op.pre_activation = like(g["y"]);
    op.activation = activation;
    run(op);
    g.expect("y", op.c);

    Tensor dz = g["dy"];
    for (const auto& [unary_name, f] : kUnaries)
      if (unary_name == name) run(UnaryBackward{f, op.pre_activation, g["dy"], dz = like(dz), false});
    g.expect("dx", product(dz, g["w"]));
    g.expect("dw", product(dz.transpose(0, 1), g["x"]));
    g.expect("db", column_sums(dz));
  }
}

TEST(Torch, Unary) {
  for (const auto& [name, f] : kUnaries) {
    const Golden g("unary_" + name);
    const Tensor y = like(g["y"]), dx = like(g["x"]);
    run(UnaryForward{f, g["x"], y});
    run(UnaryBackward{f, g["x"], g["dy"], dx, false});
    g.expect("y", y);
    g.expect("dx", dx);
  }
}

TEST(Torch, LayerNorm) {
  const Golden g("layer_norm");
  NormForward forward;
  forward.x = g["x"], forward.residual = g["r"], forward.sum = like(g["x"]), forward.y = like(g["y"]);
  forward.gain = g["gain"], forward.bias = g["bias"];
  forward.mean = room({5}), forward.rstd = room({5});
  forward.eps = 1e-5;
  run(forward);
  g.expect("s", forward.sum);
  g.expect("y", forward.y);

  NormBackward backward;
  backward.sum = forward.sum, backward.gain = g["gain"], backward.mean = forward.mean, backward.rstd = forward.rstd;
  backward.dy = g["dy"], backward.dsum = g["ds"];
  backward.dx = like(g["x"]), backward.dresidual = like(g["r"]);
  backward.dgain = like(g["gain"]), backward.dbias = like(g["bias"]);
  run(backward);
  g.expect("dx", backward.dx);
  g.expect("dr", backward.dresidual);
  g.expect("dgain", backward.dgain);
  g.expect("dbias", backward.dbias);
}

TEST(Torch, RmsNorm) {
  const Golden g("rms_norm");
  NormForward forward;
  forward.kind = NormKind::rms;
  forward.x = g["x"], forward.gain = g["gain"], forward.y = like(g["y"]), forward.rstd = room({5});
  forward.eps = 1e-6;
  run(forward);
  g.expect("y", forward.y);

  NormBackward backward;
  backward.kind = NormKind::rms;
  backward.sum = g["x"], backward.gain = g["gain"], backward.rstd = forward.rstd, backward.dy = g["dy"];
  backward.dx = like(g["x"]), backward.dgain = like(g["gain"]);
  run(backward);
  g.expect("dx", backward.dx);
  g.expect("dgain", backward.dgain);
}

TEST(Torch, Softmax) {
  for (const bool log : {false, true}) {
    const Golden g(log ? "log_softmax" : "softmax");
    SoftmaxForward forward;
    forward.x = g["x"], forward.y = like(g["y"]), forward.log = log;
    run(forward);
    g.expect("y", forward.y);
    const Tensor dx = like(g["x"]);
    run(SoftmaxBackward{forward.y, g["dy"], dx, log, false});
    g.expect("dx", dx);
  }
}

TEST(Torch, CrossEntropy) {
  for (const double smoothing : {0.0, 0.1}) {
    const Golden g(smoothing == 0 ? "cross_entropy_0.0" : "cross_entropy_0.1");
    CrossEntropy op;
    op.logits = g["z"], op.targets = g["targets"], op.loss = like(g["loss"]), op.dlogits = like(g["z"]);
    op.hits = Tensor::full(g["hits"].shape(), -1, DType::i32);
    op.smoothing = smoothing;
    op.scale = 0.25;
    op.ignore = -1;
    run(op);
    g.expect("loss", op.loss);
    g.expect("dz", op.dlogits);
    g.expect("hits", op.hits);
  }
}

TEST(Torch, Embedding) {
  const Golden g("embedding");
  EmbeddingForward forward;
  forward.ids = g["ids"], forward.weight = g["w"], forward.positions = g["p"], forward.y = like(g["y"]);
  forward.length = 3;
  forward.scale = std::sqrt(5.0);
  run(forward);
  g.expect("y", forward.y);
  const Tensor dw = like(g["w"]);
  run(EmbeddingBackward{g["ids"], g["dy"], dw, std::sqrt(5.0), false});
  g.expect("dw", dw);
}

TEST(Torch, Swiglu) {
  const Golden g("swiglu");
  const Tensor y = like(g["y"]), dx = like(g["x"]);
  run(SwigluForward{g["x"], y});
  run(SwigluBackward{g["x"], g["dy"], dx, false});
  g.expect("y", y);
  g.expect("dx", dx);
}

TEST(Torch, Rotary) {
  for (const bool interleaved : {false, true}) {
    const Golden g(interleaved ? "rotary_interleaved" : "rotary_halves");
    const Tensor y = like(g["y"]), dx = like(g["x"]);
    run(Rotary{g["x"], y, 10000, 3, false, false, interleaved});
    run(Rotary{g["dy"], dx, 10000, 3, true, false, interleaved});
    g.expect("y", y);
    g.expect("dx", dx);
  }
}

void expect_cell(const std::string& name, Cell cell) {
  const Golden g(name);
  CellForward forward;
  forward.cell = cell;
  forward.gx = g["gx"], forward.h = g["h"];
  Gemm hidden;
  hidden.a = g["h"], hidden.b = g["w"].transpose(0, 1), hidden.bias = g["b"], hidden.c = like(g["gx"]);
  run(hidden);
  forward.gh = hidden.c, forward.gates = like(g["gx"]), forward.h_next = like(g["h"]);
  const bool lstm = cell == Cell::lstm;
  if (lstm) forward.c = g["c"], forward.c_next = like(g["c"]);
  run(forward);
  g.expect("h_next", forward.h_next);
  if (lstm) g.expect("c_next", forward.c_next);

  CellBackward backward;
  backward.cell = cell;
  backward.gates = forward.gates, backward.gh = forward.gh, backward.h = g["h"], backward.dh_next = g["dh_next"];
  backward.dgx = like(g["gx"]), backward.dgh = like(g["gx"]), backward.dh = like(g["h"]);
  if (lstm) {
    backward.c = g["c"], backward.c_next = forward.c_next, backward.dc_next = g["dc_next"];
    backward.dc = like(g["c"]);
  }
  run(backward);
  g.expect("dgx", backward.dgx);
  g.expect("dw", product(backward.dgh.transpose(0, 1), g["h"]));
  g.expect("db", column_sums(backward.dgh));
  // What reaches h past the gates, and what reaches it through them.
  Gemm through;
  through.a = backward.dgh, through.b = g["w"], through.c = backward.dh, through.accumulate = true;
  run(through);
  g.expect("dh", backward.dh);
  if (lstm) g.expect("dc", backward.dc);
}

TEST(Torch, Cells) {
  expect_cell("rnn", Cell::rnn);
  expect_cell("lstm", Cell::lstm);
  expect_cell("gru", Cell::gru);
}

TEST(Torch, Attention) {
  for (const std::string name : {"plain", "causal", "padding", "causal_padding", "alibi"}) {
    const Golden g("attention_" + name);
    AttentionForward forward;
    forward.q = g["q"], forward.k = g["k"], forward.v = g["v"], forward.o = like(g["o"]);
    forward.lse = like(g["lse"]), forward.weights = like(g["weights"]);
    forward.scale = 1 / std::sqrt(6.0);
    forward.mask.causal = name != "plain" && name != "padding";
    if (name.ends_with("padding")) forward.mask.lengths = g["lengths"];
    if (name == "alibi") forward.mask.slopes = g["slopes"];
    run(forward);
    g.expect("o", forward.o);
    g.expect("lse", forward.lse);
    g.expect("weights", forward.weights);

    AttentionBackward backward;
    backward.q = g["q"], backward.k = g["k"], backward.v = g["v"], backward.o = forward.o, backward.lse = forward.lse;
    backward.d_o = g["do"], backward.mask = forward.mask, backward.scale = forward.scale;
    backward.dq = like(g["q"]), backward.dk = like(g["k"]), backward.dv = like(g["v"]);
    run(backward);
    g.expect("dq", backward.dq);
    g.expect("dk", backward.dk);
    g.expect("dv", backward.dv);
  }
}

TEST(Torch, AdditiveScores) {
  const Golden g("additive");
  const Tensor e = like(g["e"]);
  run(AdditiveScores{g["q"], g["k"], g["v"], e});
  g.expect("e", e);
  AdditiveScoresBackward backward;
  backward.q = g["q"], backward.k = g["k"], backward.v = g["v"], backward.de = g["de"];
  backward.dq = like(g["q"]), backward.dk = like(g["k"]), backward.dv = like(g["v"]);
  run(backward);
  g.expect("dq", backward.dq);
  g.expect("dk", backward.dk);
  g.expect("dv", backward.dv);
}

TEST(Torch, AdamAndAdamW) {
  for (const bool decoupled : {false, true}) {
    const Golden g(decoupled ? "adamw" : "adam");
    Adam op;
    op.w = like(g["w"]);
    op.w.copy_from(g["w"]);
    op.m = Tensor::zeros({11}, DType::f64), op.v = Tensor::zeros({11}, DType::f64);
    op.lr = 0.01, op.beta1 = 0.9, op.beta2 = 0.98, op.eps = 1e-9, op.decay = 0.1;
    op.decoupled = decoupled;
    for (int t = 1; t <= 3; ++t) {
      op.g = g["g"].select(0, t - 1);
      op.correction1 = 1 - std::pow(0.9, t), op.correction2 = 1 - std::pow(0.98, t);
      run(op);
    }
    g.expect("w_after", op.w);
  }
}

TEST(Torch, Sgd) {
  for (const std::string name : {"sgd", "momentum", "nesterov"}) {
    const Golden g(name);
    Sgd op;
    op.w = like(g["w"]);
    op.w.copy_from(g["w"]);
    if (name != "sgd") op.v = Tensor::zeros({11}, DType::f64);
    op.lr = 0.1, op.momentum = name == "sgd" ? 0 : 0.9, op.decay = 0.05;
    op.nesterov = name == "nesterov";
    for (int t = 0; t < 3; ++t) {
      op.g = g["g"].select(0, t);
      run(op);
    }
    g.expect("w_after", op.w);
  }
}

}  // namespace
}  // namespace rapt::testing
