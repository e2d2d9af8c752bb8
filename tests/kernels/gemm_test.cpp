#include <kernels/cpu/features.hpp>
#include <kernels/cpu/gemm.hpp>
#include <kernels/cpu/gemm_driver.hpp>
#include <kernels/cpu/gemm_kernels.hpp>
#include <kernels/cpu/gemm_tiles.hpp>
#include <kernels/reference/reference.hpp>
#include <rapt/base/threads.hpp>
#include <support/sanitized.hpp>
#include <support/workspace.hpp>

#include <gtest/gtest.h>

#include <cstring>

namespace rapt::kernels {
namespace {

using testing::Freedom;
using testing::kSanitized;
using testing::Layout;
using testing::Workspace;

/// What a case varies; the tensors come from a workspace with guard bands.
struct Case {
  int64_t M = 1, N = 1, K = 1;
  DType a = DType::f32, b = DType::f32, c = DType::f32;
  bool a_transposed = false, b_transposed = false;
  bool accumulate = false, bias = false, residual = false, pre = false, weight = false;
  Activation activation = Activation::none;
  Shape batch = {};
};

std::string describe(const Case& t) {
  return to_string(t.a) + " x " + to_string(t.b) + " -> " + to_string(t.c) + ", M N K " + std::to_string(t.M) + " " +
         std::to_string(t.N) + " " + std::to_string(t.K) + (t.a_transposed ? ", A^T" : "") +
         (t.b_transposed ? ", B^T" : "") + (t.accumulate ? ", accumulate" : "") + (t.bias ? ", bias" : "") +
         (t.residual ? ", residual" : "") + (t.pre ? ", pre" : "") + (t.weight ? ", weight" : "") + ", activation " +
         std::to_string(int(t.activation)) + ", batch " + to_string(t.batch);
}

Shape matrix(const Shape& batch, int64_t rows, int64_t columns) {
  Shape s = batch;
  s = s.inserted(s.rank(), rows);
  return s.inserted(s.rank(), columns);
}

Gemm build(Workspace& w, const Case& t) {
  const auto operand = [&](int64_t rows, int64_t columns, DType type, bool transposed) {
    const testing::TensorOptions options{
        .freedom = Freedom::rows, .dtype = type, .scale = type == DType::i8 ? 40.0 : 1.0};
    if (!transposed) return w.input(matrix(t.batch, rows, columns), options);
    return w.input(matrix(t.batch, columns, rows), options).transpose(-1, -2);
  };
  Gemm g;
  g.a = operand(t.M, t.K, t.a, t.a_transposed);
  g.b = operand(t.K, t.N, t.b, t.b_transposed);
  // Sums of K products of f32 precision; a bf16 C is rounded once more.
  g.c = w.output("c", matrix(t.batch, t.M, t.N), {.freedom = Freedom::rows, .accumulate = t.accumulate, .dtype = t.c});
  g.accumulate = t.accumulate;
  if (t.bias) g.bias = w.input({t.N}, {.dtype = DType::f32});
  if (t.residual) g.residual = w.input(matrix(t.batch, t.M, t.N), {.freedom = Freedom::rows, .dtype = t.c});
  if (t.pre) g.pre_activation = w.output("pre", matrix(t.batch, t.M, t.N), {.freedom = Freedom::rows, .dtype = t.c});
  g.activation = t.activation;
  g.b_is_weight = t.weight;
  return g;
}

/// The tile unit as plain loops: what the instruction set manual says of TILELOADD, TDPBF16PS and TDPBSSD.
struct ModelTiles {
  static inline thread_local char tiles[8][16][64];
  template <int t>
  static void load(const char* p, int64_t stride) {
    for (int row = 0; row < 16; ++row) std::memcpy(tiles[t][row], p + row * stride, 64);
  }
  template <int t>
  static void load_passing(const char* p, int64_t stride) {
    load<t>(p, stride);
  }
  template <int t>
  static void store(char* p, int64_t stride) {
    for (int row = 0; row < 16; ++row) std::memcpy(p + row * stride, tiles[t][row], 64);
  }
  template <int t>
  static void zero() {
    std::memset(tiles[t], 0, sizeof tiles[t]);
  }
};
struct ModelBf16 : ModelTiles {
  template <int c, int a, int b>
  static void dot() {
    const auto at = [](int t, int row, int column) {
      uint16_t bits;
      std::memcpy(&bits, &tiles[t][row][2 * column], 2);
      return std::bit_cast<float>(uint32_t(bits) << 16);
    };
    for (int m = 0; m < 16; ++m)
      for (int n = 0; n < 16; ++n) {
        float sum;
        std::memcpy(&sum, &tiles[c][m][4 * n], 4);
        for (int k = 0; k < 16; ++k)
          for (int half = 0; half < 2; ++half) sum += at(a, m, 2 * k + half) * at(b, k, 2 * n + half);
        std::memcpy(&tiles[c][m][4 * n], &sum, 4);
      }
  }
};
struct ModelInt8 : ModelTiles {
  template <int c, int a, int b>
  static void dot() {
    for (int m = 0; m < 16; ++m)
      for (int n = 0; n < 16; ++n) {
        int32_t sum;
        std::memcpy(&sum, &tiles[c][m][4 * n], 4);
        for (int k = 0; k < 16; ++k)
          for (int i = 0; i < 4; ++i) sum += int8_t(tiles[a][m][4 * k + i]) * int8_t(tiles[b][k][4 * n + i]);
        std::memcpy(&tiles[c][m][4 * n], &sum, 4);
      }
  }
};

#if defined(__x86_64__)
template <class Model, const cpu::GemmKernel& kHardware, bool kPortablePacking>
void run_model(const Gemm& g) {
  cpu::GemmKernel kernel = kHardware;
  kernel.multiply = cpu::multiply_tiles<Model>;
  kernel.begin = kernel.end = nullptr;
  if (kPortablePacking) kernel.pack = cpu::pack_portable;
  if (kPortablePacking && kernel.finish == cpu::finish_avx512bf16) kernel.finish = cpu::finish_portable;
  cpu::run_gemm(kernel, g);
}
#endif

/// Everything in the table but the reference, and the model of the tile unit with both ways of packing.
std::vector<Implementation<Gemm>> candidates() {
  std::vector<Implementation<Gemm>> all = implementations<Gemm>();
  all.pop_back();
#if defined(__x86_64__)
  const auto avx512 = [] { return cpu::features().avx512bf16; };
  const auto always = [] { return true; };
  all.push_back({"model_bf16", avx512, cpu::kGemmAmxBf16.supports, run_model<ModelBf16, cpu::kAmxBf16, false>});
  all.push_back({"model_int8", avx512, cpu::kGemmAmxInt8.supports, run_model<ModelInt8, cpu::kAmxInt8, false>});
  all.push_back({"model_bf16_portable", always, cpu::kGemmAmxBf16.supports, run_model<ModelBf16, cpu::kAmxBf16, true>});
  all.push_back({"model_int8_portable", always, cpu::kGemmAmxInt8.supports, run_model<ModelInt8, cpu::kAmxInt8, true>});
#endif
  return all;
}

void check(const Case& t, Layout layout = Layout::mixed) {
  const uint64_t seed = uint64_t(t.M * 10007 + t.N * 101 + t.K);
  Workspace wanted(t.c, layout, seed);
  const Gemm wanted_args = build(wanted, t);
  reference::run(wanted_args);
  int ran = 0;
  for (const auto& candidate : candidates()) {
    if (!candidate.available()) continue;
    Workspace got(t.c, layout, seed);
    const Gemm args = build(got, t);
    if (!candidate.supports(args)) continue;
    SCOPED_TRACE(std::string(candidate.name) + ": " + describe(t));
    got.seal();
    candidate.run(args);
    got.expect_nothing_else_changed();
    got.expect_outputs_like(wanted, 1);
    ++ran;
  }
  EXPECT_GT(ran, 0) << describe(t);
}

struct Types {
  DType a, b, c;
};
constexpr Types kTypes[] = {{DType::f32, DType::f32, DType::f32},   {DType::bf16, DType::bf16, DType::bf16},
                            {DType::bf16, DType::bf16, DType::f32}, {DType::f32, DType::bf16, DType::f32},
                            {DType::bf16, DType::f32, DType::bf16}, {DType::bf16, DType::f32, DType::f32},
                            {DType::f32, DType::bf16, DType::bf16}, {DType::i8, DType::i8, DType::i32}};

Case of_types(const Types& types, int64_t M, int64_t N, int64_t K) {
  Case t;
  t.M = M, t.N = N, t.K = K;
  t.a = types.a, t.b = types.b, t.c = types.c;
  return t;
}

TEST(Gemm, every_size_up_to_130) {
  for (const Types& types : kTypes)
    for (int64_t n = 1; n <= 130; n += n < 36 ? 1 : 7) {
      check(of_types(types, n, 33, 17));
      check(of_types(types, 7, n, 50));
      check(of_types(types, 18, 40, n));
    }
}

TEST(Gemm, every_transpose) {
  for (const Types& types : kTypes)
    for (int transposes = 0; transposes < 4; ++transposes)
      for (const Shape& size :
           {Shape{1, 1, 1}, Shape{1, 70, 65}, Shape{70, 1, 65}, Shape{33, 65, 1}, Shape{65, 34, 300},
            Shape{31, 47, 129}, Shape{64, 64, 64}, Shape{40, 36, 1100}, Shape{3, 66, 2100}})
        for (const bool accumulate : {false, true}) {
          if (kSanitized && accumulate == (transposes % 3 == 0)) continue;  // half of them reach every line
          Case t = of_types(types, size[0], size[1], size[2]);
          t.a_transposed = transposes & 1;
          t.b_transposed = transposes & 2;
          t.accumulate = accumulate;
          check(t, accumulate ? Layout::mixed : Layout::plain);
        }
}

TEST(Gemm, epilogues) {
  for (const Types& types : kTypes) {
    if (types.c == DType::i32) continue;
    for (int activation = 0; activation <= int(Activation::sigmoid); ++activation)
      for (const int parts : {activation, 7}) {
        if (kSanitized && parts != 7) continue;
        for (const Shape& size : {Shape{33, 70, 40}, Shape{5, 35, 1100}, Shape{28, 64, 1030}}) {
          Case t = of_types(types, size[0], size[1], size[2]);
          t.activation = Activation(activation);
          t.bias = parts & 1;
          t.residual = parts & 2;
          t.pre = parts & 4;
          t.b_transposed = activation % 2;
          check(t);
        }
      }
  }
}

TEST(Gemm, batches) {
  for (const Types& types : kTypes)
    for (const Shape& batch : {Shape{3}, Shape{2, 3}, Shape{1, 1}}) {
      Case t = of_types(types, 20, 40, 70);
      t.batch = batch;
      t.b_transposed = true;
      check(t);
      check(t, Layout::padded);
      t.accumulate = true;
      t.b_transposed = false;
      check(t, Layout::padded);
    }
}

TEST(Gemm, nothing_to_sum_or_to_write) {
  for (const Types& types : kTypes) {
    Case t = of_types(types, 20, 40, 0);
    check(t);
    t.accumulate = true;
    check(t);
    t.accumulate = false;
    if (t.c != DType::i32) {
      t.bias = t.residual = true;
      check(t);
    }
    check(of_types(types, 0, 40, 8));
    check(of_types(types, 20, 0, 8));
  }
}

TEST(Gemm, extreme_bytes) {
  for (const auto& candidate : candidates()) {
    Gemm g;
    g.a = Tensor::full({5, 3000}, -128, DType::i8);
    g.b = Tensor::full({3000, 40}, -128, DType::i8);
    g.c = Tensor::empty({5, 40}, DType::i32);
    if (!candidate.available() || !candidate.supports(g)) continue;
    SCOPED_TRACE(candidate.name);
    candidate.run(g);
    for (const double v : g.c.to_vector()) ASSERT_EQ(v, 3000.0 * 128 * 128);
  }
}

TEST(Gemm, not_a_number_stays_in_its_row_and_column) {
  for (const auto& candidate : candidates())
    for (const DType type : {DType::f32, DType::bf16}) {
      Gemm g;
      g.a = Tensor::full({37, 45}, 1, type);
      g.b = Tensor::full({45, 50}, 1, type);
      g.c = Tensor::empty({37, 50}, DType::f32);
      g.activation = Activation::relu;
      if (!candidate.available() || !candidate.supports(g)) continue;
      g.a.narrow(0, 3, 1).narrow(1, 44, 1).fill(std::nan(""));
      g.b.narrow(0, 0, 1).narrow(1, 49, 1).fill(INFINITY);
      SCOPED_TRACE(candidate.name);
      candidate.run(g);
      for (int64_t i = 0; i < 37; ++i)
        for (int64_t j = 0; j < 50; ++j) {
          const double got = g.c.at({i, j});
          if (i == 3)
            ASSERT_TRUE(std::isnan(got)) << i << " " << j;
          else
            ASSERT_EQ(got, j == 49 ? INFINITY : 45.0) << i << " " << j;
        }
    }
}

/// Large values show the tails of the curves, which the norm of an error hides.
TEST(Gemm, curves_are_precise_everywhere) {
  constexpr int64_t kCount = 4001;
  const Tensor x = Tensor::empty({kCount, 1});
  testing::set_values(x, [](int64_t n) { return double(n - 2000) * 0.005; });
  for (const auto& candidate : candidates())
    for (int activation = 1; activation <= int(Activation::sigmoid); ++activation) {
      Gemm g;
      g.a = x;
      g.b = Tensor::full({1, 1}, 1);
      g.c = Tensor::empty({kCount, 1});
      g.activation = Activation(activation);
      if (!candidate.available() || !candidate.supports(g)) continue;
      candidate.run(g);
      Gemm exact = g;
      exact.a = g.a.to(DType::f64);
      exact.b = g.b.to(DType::f64);
      exact.c = Tensor::empty({kCount, 1}, DType::f64);
      reference::run(exact);
      for (int64_t i = 0; i < kCount; ++i) {
        const double want = exact.c.at({i, 0}), got = g.c.at({i, 0});
        ASSERT_NEAR(got, want, 4e-6 * std::abs(want) + 1e-15)  // 1 + tanh of the reference ends near 1e-16
            << candidate.name << ", activation " << activation << " at " << x.at({i, 0});
      }
    }
}

Tensor run_on(const Implementation<Gemm>& implementation, Gemm g, int threads) {
  const int before = thread_count();
  set_thread_count(threads);
  g.c = Tensor::empty(g.c.shape(), g.c.dtype());
  implementation.run(g);
  set_thread_count(before);
  return g.c;
}

TEST(Gemm, threads_do_not_change_a_bit) {
  for (const auto& candidate : candidates())
    for (const Types& types : kTypes)
      for (const int64_t M : {2, 17, 120}) {
        if (kSanitized && M == 17) continue;
        Workspace w(types.c, Layout::plain, 5);
        Case t = of_types(types, M, 130, 1100);
        t.bias = types.c != DType::i32;
        const Gemm g = build(w, t);
        if (!candidate.available() || !candidate.supports(g)) continue;
        const Tensor one = run_on(candidate, g, 1);
        for (const int threads : {2, 3}) {
          const Tensor more = run_on(candidate, g, threads);
          EXPECT_EQ(std::memcmp(one.raw(), more.raw(), size_t(one.numel()) * size_of(one.dtype())), 0)
              << candidate.name << ", " << threads << " threads, " << describe(t);
        }
      }
}

/// Weights are views into one storage; their packed forms follow its version and keep their memory.
TEST(Gemm, packed_weights_follow_their_storage) {
  const int threads = thread_count();
  set_thread_count(1);  // the scratch of a second thread would count as memory in use when it first gets work
  for (const auto& candidate : candidates())
    for (const Types& types : kTypes) {
      Workspace w(types.c, Layout::plain, 6);
      Gemm g = build(w, of_types(types, 20, 40, 70));
      if (!candidate.available() || !candidate.supports(g)) continue;
      SCOPED_TRACE(candidate.name);
      const Tensor flat = Tensor::zeros({2 * 40 * 70}, types.b);
      const auto first = flat.narrow(0, 0, 2800).view({40, 70}), second = flat.narrow(0, 2800, 2800).view({70, 40});
      const auto expect_right = [&](const Tensor& b) {
        g.b = b;
        g.b_is_weight = true;
        candidate.run(g);
        Gemm plain = g;
        plain.c = Tensor::empty(g.c.shape(), g.c.dtype());
        plain.b_is_weight = false;
        reference::run(plain);
        EXPECT_LE(testing::relative_error(g.c, plain.c), testing::error_bound(types.c));
      };
      size_t in_use = 0;
      for (int step = 0; step < 4; ++step) {
        testing::set_values(flat, [&](int64_t n) { return double((n * 7 + step * 5) % 23 - 11); });
        flat.storage().touch();
        for (int again = 0; again < 2; ++again) {
          expect_right(first.transpose(0, 1));
          expect_right(second);
        }
        if (step == 0)
          in_use = memory_stats().in_use;
        else
          EXPECT_EQ(memory_stats().in_use, in_use);
      }
    }
  set_thread_count(threads);
}

TEST(Gemm, weights_are_packed_once) {
  const auto& all = implementations<Gemm>();
  for (const auto& candidate : all) {
    Gemm g;
    g.a = Tensor::full({3, 64}, 1);
    g.b = Tensor::full({64, 48}, 1);
    g.c = Tensor::empty({3, 48});
    g.b_is_weight = true;
    if (!candidate.available() || !candidate.supports(g) || &candidate == &all.back()) continue;
    candidate.run(g);
    // A change that is not announced by touch() is not seen: the product came from the packed form.
    g.b.data<float>()[0] = 100;
    candidate.run(g);
    EXPECT_EQ(g.c.at({0, 0}), 64) << candidate.name;
    g.b.storage().touch();
    candidate.run(g);
    EXPECT_EQ(g.c.at({0, 0}), 163) << candidate.name;
  }
}

TEST(Gemm, refuses_what_it_cannot_read) {
  Gemm g;
  g.a = Tensor::zeros({4, 6, 2}).select(-1, 0);
  g.b = Tensor::zeros({6, 5});
  g.c = Tensor::zeros({4, 5});
  for (const auto& candidate : candidates()) EXPECT_FALSE(candidate.supports(g)) << candidate.name;
  g.a = Tensor::zeros({4, 6}, DType::f64);
  for (const auto& candidate : candidates()) EXPECT_FALSE(candidate.supports(g)) << candidate.name;
}

}  // namespace
}  // namespace rapt::kernels
