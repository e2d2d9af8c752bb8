#include <kernels/kernels.hpp>
#include <kernels/rows.hpp>
#include <rapt/base/threads.hpp>

#include <fmt/format.h>

namespace rapt::bench {
namespace {

using namespace kernels;

Tensor random(const Shape& shape, DType dtype) {
  const Philox philox{11, 3};
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 2 * philox.uniform(i % 4096) - 1;
  return Tensor::from(values, shape).to(dtype);
}

/// Operations on one [N, D] in one dtype; each is measured by the bytes that it must read and write, as a copy is.
class Bench {
 public:
  Bench(Report& report, int64_t n, int64_t d, DType dtype) : report_(report), n_(n), d_(d), dtype_(dtype) {}

  void run() {
    elementwise();
    norms();
    softmaxes();
    lookups();
    if (dtype_ == DType::f32) optimiser();
  }

 private:
  Tensor matrix() const { return random({n_, d_}, dtype_); }
  Tensor result() const { return Tensor::full({n_, d_}, 0, dtype_); }  // its pages are touched before the clock runs

  /// `tensors`: how many times the bytes of one matrix pass.
  template <class Args>
  void add(const std::string& name, const Args& args, double tensors) {
    for (const int threads : report_.options().threads) {
      set_thread_count(threads);
      report_.add({fmt::format("{}_{}", name, to_string(dtype_)),
                   fmt::format("{}x{}", n_, d_),
                   chosen(args).name,
                   threads,
                   time_calls([&] { launch(args); }, 0.2),
                   tensors * double(n_ * d_) * double(size_of(dtype_)),
                   "copy",
                   {}});
    }
  }
  bool wants(const std::string& name) const { return report_.wants(fmt::format("{}_{}", name, to_string(dtype_))); }

  void elementwise() {
    if (wants("add")) add("add", BinaryForward{Binary::add, matrix(), matrix(), result()}, 3);
    if (wants("add_bias")) add("add_bias", BinaryForward{Binary::add, matrix(), random({1, d_}, dtype_), result()}, 2);
    if (wants("gelu")) add("gelu", UnaryForward{Unary::gelu, matrix(), result()}, 2);
    if (wants("gelu_backward")) add("gelu_backward", UnaryBackward{Unary::gelu, matrix(), matrix(), result()}, 3);
    if (wants("dropout")) add("dropout", Dropout{matrix(), result(), 0.1f, {1, 2}}, 2);
    if (wants("sum_rows")) add("sum_rows", Reduce{matrix(), Tensor::zeros({1, d_})}, 1);
  }

  void norms() {
    const Tensor gain = random({d_}, DType::f32), bias = random({d_}, DType::f32);
    const Tensor mean = random({n_}, DType::f32), rstd = random({n_}, DType::f32);
    NormForward forward;
    forward.gain = gain, forward.bias = bias, forward.mean = mean, forward.rstd = rstd;
    if (wants("norm")) {
      forward.x = matrix(), forward.y = result();
      add("norm", forward, 2);
    }
    if (wants("norm_residual")) {
      forward.x = matrix(), forward.residual = matrix(), forward.sum = result(), forward.y = result(), forward.p = 0.1f;
      add("norm_residual", forward, 4);
    }
    if (!wants("norm_backward")) return;
    NormBackward backward;
    backward.gain = gain, backward.mean = mean, backward.rstd = rstd, backward.p = 0.1f;
    backward.sum = matrix(), backward.dy = matrix(), backward.dsum = matrix();
    backward.dx = result(), backward.dresidual = result();
    backward.dgain = Tensor::zeros({d_}), backward.dbias = Tensor::zeros({d_});
    add("norm_backward", backward, 5);
  }

  void softmaxes() {
    if (wants("softmax")) add("softmax", SoftmaxForward{matrix(), result(), Tensor()}, 2);
    if (wants("softmax_backward")) add("softmax_backward", SoftmaxBackward{matrix(), matrix(), result()}, 3);
    if (!wants("cross_entropy")) return;
    std::vector<int32_t> targets(static_cast<size_t>(n_));
    for (size_t i = 0; i < targets.size(); ++i) targets[i] = int32_t(i * 7919 % size_t(d_));
    CrossEntropy loss;
    loss.logits = loss.dlogits = matrix();
    loss.targets = Tensor::from(targets, {n_}), loss.loss = Tensor::zeros({n_}), loss.smoothing = 0.1;
    add("cross_entropy", loss, 2);
  }

  void lookups() {
    constexpr int32_t kWords = 8192;
    std::vector<int32_t> words(static_cast<size_t>(n_));
    for (size_t i = 0; i < words.size(); ++i) words[i] = int32_t(i * 7919 % size_t(kWords));
    const Tensor ids = Tensor::from(words, {n_});
    if (wants("embedding"))
      add("embedding", EmbeddingForward{ids, random({kWords, d_}, DType::f32), Tensor(), result()},
          1 + 4.0 / double(size_of(dtype_)));
    if (wants("embedding_backward"))
      add("embedding_backward", EmbeddingBackward{ids, matrix(), Tensor::zeros({kWords, d_}), 1, true},
          1 + 8.0 / double(size_of(dtype_)));
  }

  void optimiser() {
    const int64_t n = n_ * d_;
    if (!wants("adam")) return;
    const Tensor w = random({n}, dtype_), g = random({n}, dtype_), m = Tensor::zeros({n}), v = Tensor::zeros({n});
    add("adam", Adam{w, g, m, v, 1e-3, 0.9, 0.98, 1e-9, 0.01, 0.1, 0.02}, 7);
  }

  Report& report_;
  int64_t n_, d_;
  DType dtype_;
};

}  // namespace

void bandwidth_rows(Report& report) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& [n, d] : {std::pair<int64_t, int64_t>{2048, 512}, {2048, 2048}, {16384, 2048}})
      Bench(report, n, d, dtype).run();
}

}  // namespace rapt::bench
