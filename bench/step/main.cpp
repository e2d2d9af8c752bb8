// One training step of the paper's base model at 2,000 + 2,000 tokens, broken down by operation.
#include <kernels/kernels.hpp>
#include <rapt/rapt.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>

namespace rapt {
namespace {

struct Options {
  std::string preset = "base", json;
  DType dtype = DType::bf16;
  int64_t batch = 40, length = 50, vocabulary = 32000, steps = 5;
};

[[noreturn]] void wrong_usage(const std::string& text) {
  throw ConfigError(text +
                    "\nusage: bench_step [--preset base] [--precision bf16|f32] [--batch 40] [--length 50] "
                    "[--vocabulary 32000] [--steps 5] [--threads N] [--json FILE]");
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 >= argc) wrong_usage(fmt::format("'{}' needs a value", name));
    const std::string value = argv[i + 1];
    auto number = [&](int64_t& into) {
      if (value.empty() || value.size() > 9 || value.find_first_not_of("0123456789") != std::string::npos ||
          value == "0")
        wrong_usage(fmt::format("'{} {}': a whole number above 0 is needed", name, value));
      into = std::stoll(value);
    };
    int64_t threads = 0;
    if (name == "--preset")
      o.preset = value;
    else if (name == "--json")
      o.json = value;
    else if (name == "--batch")
      number(o.batch);
    else if (name == "--length")
      number(o.length);
    else if (name == "--vocabulary")
      number(o.vocabulary);
    else if (name == "--steps")
      number(o.steps);
    else if (name == "--threads")
      number(threads), set_thread_count(int(threads));
    else if (name == "--precision" && value == "bf16")
      o.dtype = DType::bf16;
    else if (name == "--precision" && value == "f32")
      o.dtype = DType::f32;
    else
      wrong_usage(fmt::format("unknown option '{} {}'", name, value));
  }
  return o;
}

Tensor random_tokens(const Options& o, uint64_t stream) {
  const Philox random{1, stream};
  std::vector<int32_t> ids(size_t(o.batch * o.length));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = 4 + int32_t(random.below(i, uint32_t(o.vocabulary - 4)));
  return Tensor::from(ids, {o.batch, o.length});
}

struct Measured {
  double seconds = 0;  ///< of the fastest step
  std::vector<kernels::ProfileRow> rows;
};

Measured measure(const Options& o, const models::EncoderDecoder& model) {
  train::Optimiser optimiser(model.parameters(), train::Adam{});
  const Tensor source = random_tokens(o, 1), target = random_tokens(o, 2), labels = random_tokens(o, 3);
  nn::Context ctx{.training = true, .dtype = o.dtype};
  auto step = [&](int64_t n) {
    ctx.step = uint64_t(n);
    ctx.draws = 0;
    model.parameters().zero_grad();
    backward(model.loss(source, {}, target, labels, {.smoothing = 0.1}, ctx));
    optimiser.step(1e-4, 1.0);
  };
  step(1);  // fills the pool and packs nothing that stays
  reset_peak_memory();
  Measured best{1e30, {}};
  for (int64_t n = 0; n < o.steps; ++n) {
    kernels::start_profile();
    const auto begin = std::chrono::steady_clock::now();
    step(n + 2);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    auto rows = kernels::stop_profile();
    if (took.count() < best.seconds) best = {took.count(), std::move(rows)};
  }
  return best;
}

void report(const Options& o, const models::EncoderDecoder& model, const Measured& m) {
  fmt::print("{}: {} + {} tokens, vocabulary {}, {}, {} threads, {:.1f} M parameters\n\n", o.preset, o.batch * o.length,
             o.batch * o.length, o.vocabulary, to_string(o.dtype), thread_count(),
             double(model.parameters().count()) / 1e6);
  fmt::print("{:<26} {:<16} {:>6} {:>10} {:>8} {:>12}\n", "operation", "implementation", "calls", "ms", "share",
             "GFLOP/s");
  double accounted = 0, products = 0;
  nlohmann::json json_rows = nlohmann::json::array();
  for (const auto& row : m.rows) {
    accounted += row.seconds;
    if (row.op == "gemm" || row.op.rfind("attention", 0) == 0) products += row.seconds;
    fmt::print("{:<26} {:<16} {:>6} {:>10.2f} {:>7.1f}% {:>12}\n", row.op, row.implementation, row.calls,
               row.seconds * 1e3, 100 * row.seconds / m.seconds,
               row.flops > 0 ? fmt::format("{:.0f}", row.flops / row.seconds / 1e9) : "");
    json_rows.push_back({{"op", row.op},
                         {"implementation", row.implementation},
                         {"calls", row.calls},
                         {"seconds", row.seconds},
                         {"flops", row.flops}});
  }
  const double rest = m.seconds - accounted, rate = double(o.batch * o.length) / m.seconds;
  const double peak = double(memory_stats().peak) / double(1 << 20);
  fmt::print("{:<26} {:<16} {:>6} {:>10.2f} {:>7.1f}%\n", "outside the kernels", "", "", rest * 1e3,
             100 * rest / m.seconds);
  fmt::print(
      "\nstep {:.1f} ms, {:.0f} target tokens/s, {:.1f} % in matrix products and attention, peak memory {:.0f} MiB\n",
      m.seconds * 1e3, rate, 100 * products / m.seconds, peak);
  if (o.json.empty()) return;
  std::ofstream file(o.json);
  file << nlohmann::json{{"seconds", m.seconds},
                         {"tokens_per_second", rate},
                         {"product_share", products / m.seconds},
                         {"peak_mib", peak},
                         {"rows", json_rows}}
              .dump(1)
       << "\n";
  if (!file) throw FileError(o.json + ": cannot be written");
}

}  // namespace
}  // namespace rapt

int main(int argc, char** argv) {
  try {
    const rapt::Options options = rapt::parse(argc, argv);
    auto config = rapt::models::EncoderDecoderConfig::preset(options.preset);
    config.source_vocabulary = config.target_vocabulary = options.vocabulary;
    const rapt::models::EncoderDecoder model(config);
    rapt::report(options, model, rapt::measure(options, model));
  } catch (const rapt::ConfigError& error) {
    fmt::print(stderr, "bench_step: {}\n", error.what());
    return 2;
  } catch (const rapt::Error& error) {
    fmt::print(stderr, "bench_step: {}\n", error.what());
    return 1;
  }
  return 0;
}
