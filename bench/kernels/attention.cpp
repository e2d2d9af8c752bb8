#include <kernels/kernels.hpp>
#include <kernels/rows.hpp>
#include <rapt/base/random.hpp>
#include <rapt/base/threads.hpp>

#include <fmt/format.h>

#include <cmath>

namespace rapt::bench {
namespace {

using kernels::AttentionBackward;
using kernels::AttentionForward;

Tensor random(const Shape& shape, DType dtype, uint64_t stream) {
  const Philox philox{7, stream};
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 2 * philox.uniform(i) - 1;
  return Tensor::from(values, shape).to(dtype);
}

/// The product whose rate attention is compared with, measured in turns with it.
kernels::Gemm yardstick(DType dtype) {
  kernels::Gemm g;
  g.a = random({2048, 512}, dtype, 1);
  g.b = random({512, 512}, DType::f32, 2).transpose(0, 1);
  g.c = Tensor::empty({2048, 512}, dtype);
  g.b_is_weight = true;
  return g;
}

struct Size {
  int64_t batch, queries, keys;
  bool causal;
  float p;
};
constexpr int64_t kHeads = 8, kWidth = 64;

std::string describe(const Size& s) {
  return fmt::format("B{} T{}{}{}", s.batch, s.queries == s.keys ? "" : fmt::format("{}x", s.queries), s.keys,
                     s.causal  ? " causal"
                     : s.p > 0 ? " dropout"
                               : "");
}

/// A causal call is counted as half of the work, as is usual.
double work(const Size& s) {
  return 4.0 * double(s.batch * kHeads * s.queries * s.keys * kWidth) * (s.causal ? 0.5 : 1.0);
}

AttentionForward forward_call(const Size& s, DType dtype) {
  AttentionForward f;
  f.q = random({s.batch, s.queries, kHeads, kWidth}, dtype, 1);
  f.k = random({s.batch, s.keys, kHeads, kWidth}, dtype, 2);
  f.v = random({s.batch, s.keys, kHeads, kWidth}, dtype, 3);
  f.o = Tensor::empty(f.q.shape(), dtype);
  f.lse = Tensor::empty({s.batch, kHeads, s.queries});
  f.mask.causal = s.causal;
  f.scale = 1 / std::sqrt(double(kWidth));
  f.p = s.p;
  f.random = {1, 2};
  return f;
}

AttentionBackward backward_call(const AttentionForward& f) {
  const DType dtype = f.q.dtype();
  AttentionBackward b;
  b.q = f.q, b.k = f.k, b.v = f.v, b.o = f.o, b.lse = f.lse;
  b.d_o = random(f.o.shape(), dtype, 4);
  b.dq = Tensor::empty(f.q.shape(), dtype);
  b.dk = Tensor::empty(f.k.shape(), dtype);
  b.dv = Tensor::empty(f.v.shape(), dtype);
  b.mask = f.mask, b.scale = f.scale, b.p = f.p, b.random = f.random;
  return b;
}

template <class Args>
void add_rows(Report& report, const std::string& name, const Size& size, const Args& args, double work) {
  const kernels::Gemm gemm = yardstick(args.q.dtype());
  for (const int threads : report.options().threads) {
    set_thread_count(threads);
    const auto times = time_in_turns({[&] { kernels::launch(args); }, [&] { kernels::launch(gemm); }});
    Row row{name, describe(size), kernels::chosen(args).name, threads, times[0], work, to_string(args.q.dtype()), {},
            {}};
    row.gemm_ratio = work / times[0].best / (2.0 * 2048 * 512 * 512 / times[1].best);
    report.add(row);
  }
}

void add_rows(Report& report, const Size& s, DType dtype) {
  const std::string name = fmt::format("attention_{}", to_string(dtype));
  if (!report.wants(name)) return;
  const AttentionForward f = forward_call(s, dtype);
  add_rows(report, name, s, f, work(s));
  add_rows(report, name + "_back", s, backward_call(f), 2.5 * work(s));
}

/// One query a sequence: all keys and values pass for a few operations an element, so the limit is memory.
void add_decode_rows(Report& report, const Size& s, DType dtype) {
  const std::string name = fmt::format("attention_decode_{}", to_string(dtype));
  if (!report.wants(name)) return;
  const AttentionForward f = forward_call(s, dtype);
  const double bytes = double((f.k.numel() + f.v.numel()) * int64_t(size_of(dtype)));
  for (const int threads : report.options().threads) {
    set_thread_count(threads);
    report.add({name,
                describe(s),
                kernels::chosen(f).name,
                threads,
                time_calls([&] { kernels::launch(f); }),
                bytes,
                "copy",
                {},
                {}});
  }
}

}  // namespace

void attention_rows(Report& report) {
  constexpr Size kSizes[] = {{64, 48, 48, false, 0},  {64, 48, 48, true, 0},  {64, 48, 48, false, 0.1f},
                             {4, 512, 512, false, 0}, {4, 512, 512, true, 0}, {1, 4096, 4096, false, 0},
                             {1, 4096, 4096, true, 0}};
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const Size& size : kSizes) add_rows(report, size, dtype);
    add_decode_rows(report, {8, 1, 1024, false, 0}, dtype);
  }
}

}  // namespace rapt::bench
