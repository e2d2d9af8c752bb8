#include <kernels/kernels.hpp>
#include <kernels/rows.hpp>
#include <rapt/base/random.hpp>
#include <rapt/base/threads.hpp>
#include <support/openblas.hpp>

#include <fmt/format.h>

namespace rapt::bench {
namespace {

using kernels::Gemm;

Tensor random(const Shape& shape, DType dtype) {
  const Philox philox{7, uint64_t(shape.numel())};
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 2 * philox.uniform(i) - 1;
  if (dtype == DType::i8)
    for (float& v : values) v *= 127;
  return Tensor::from(values, shape).to(dtype);
}

/// A linear layer of M tokens, K inputs, N outputs: the product forward and the two of the backward pass.
enum class Form { forward, input_gradient, weight_gradient };

/// y [M, N] = x [M, K] W^T;  dx [M, K] = dy [M, N] W;  dW [N, K] = dy^T x. W [N, K] is an f32 master, or int8.
Gemm product(Form form, const Tensor& x, const Tensor& w, const Tensor& dy) {
  const DType made = x.dtype() == DType::i8 ? DType::i32 : x.dtype();
  Gemm g;
  g.b_is_weight = form != Form::weight_gradient;
  switch (form) {
    case Form::forward: g.a = x, g.b = w.transpose(0, 1), g.c = Tensor::empty({x.size(0), w.size(0)}, made); break;
    case Form::input_gradient: g.a = dy, g.b = w, g.c = Tensor::empty({x.size(0), w.size(1)}, made); break;
    case Form::weight_gradient:
      g.a = dy.transpose(0, 1), g.b = x, g.c = Tensor::empty({w.size(0), w.size(1)}, DType::f32);
      break;
  }
  return g;
}

void add_row(Report& report, const OpenBlas& openblas, const std::string& name, const std::string& type,
             const Gemm& g) {
  const int64_t M = g.c.size(0), N = g.c.size(1), K = g.a.size(1);
  std::vector<std::function<void()>> calls = {[&] { kernels::launch(g); }};
  const Tensor theirs = type == "f32" ? Tensor::empty(g.c.shape()) : Tensor();
  const bool a_transposed = g.a.stride(1) != 1, b_transposed = g.b.stride(1) != 1;
  if (type == "f32" && openblas.available())
    calls.push_back([&] {
      openblas.multiply(a_transposed, b_transposed, M, N, K, g.a.data<float>(), g.a.stride(a_transposed ? 1 : 0),
                        g.b.data<float>(), g.b.stride(b_transposed ? 1 : 0), theirs.data<float>(), N);
    });
  for (const int threads : report.options().threads) {
    set_thread_count(threads);
    if (openblas.available()) openblas.set_threads(threads);
    const auto times = time_in_turns(calls);
    Row row{name,
            fmt::format("{}x{}x{}", M, N, K),
            kernels::chosen(g).name,
            threads,
            times[0],
            2.0 * double(M) * double(N) * double(K),
            type,
            {}};
    if (times.size() > 1) row.openblas_ratio = times[1].best / times[0].best;
    report.add(row);
  }
}

/// One token at a time: the whole weight passes for two operations an element, so the limit is memory.
void add_decode_row(Report& report, const std::string& name, DType dtype, int64_t N, int64_t K) {
  const Tensor x = random({1, K}, dtype), w = random({N, K}, dtype);
  const Gemm g = product(Form::forward, x, w, Tensor());
  for (const int threads : report.options().threads) {
    set_thread_count(threads);
    report.add({name,
                fmt::format("1x{}x{}", N, K),
                kernels::chosen(g).name,
                threads,
                time_calls([&] { kernels::launch(g); }),
                double(N) * double(K) * double(size_of(dtype)),
                "copy",
                {}});
  }
}

struct Size {
  int64_t M, N, K;
};

}  // namespace

void gemm_rows(Report& report) {
  const OpenBlas openblas;
  for (const auto& [type, dtype] : {std::pair{"bf16", DType::bf16}, {"f32", DType::f32}, {"int8", DType::i8}})
    for (const auto [M, N, K] :
         {Size{2048, 512, 512}, Size{2048, 2048, 512}, Size{2048, 512, 2048}, Size{2048, 32000, 512}}) {
      const std::string name = fmt::format("gemm_{}", type);
      if (!report.wants(name)) continue;
      const bool integer = dtype == DType::i8;
      const Tensor x = random({M, K}, dtype), dy = random({M, N}, dtype);
      const Tensor w = random({N, K}, integer ? DType::i8 : DType::f32);
      add_row(report, openblas, name, type, product(Form::forward, x, w, dy));
      if (integer) continue;
      add_row(report, openblas, name + "_dx", type, product(Form::input_gradient, x, w, dy));
      add_row(report, openblas, name + "_dw", type, product(Form::weight_gradient, x, w, dy));
    }
  if (!report.wants("gemm_decode")) return;
  add_decode_row(report, "gemm_decode_bf16", DType::bf16, 32000, 512);
  add_decode_row(report, "gemm_decode_f32", DType::f32, 32000, 512);
  add_decode_row(report, "gemm_decode_int8", DType::i8, 32000, 2048);
}

}  // namespace rapt::bench
