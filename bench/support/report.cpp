#include <base/fail.hpp>
#include <kernels/cpu/peak.hpp>
#include <support/report.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>

namespace rapt::bench {

double Limits::operator()(const std::string& kind, int threads) {
  const auto [at, fresh] = measured_.try_emplace({kind, threads}, 0);
  if (fresh) at->second = kind == "copy" ? kernels::cpu::copy_rate(threads) : kernels::cpu::peak_rate(kind, threads);
  return at->second;
}

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    require<ConfigError>(name == "--only" || name == "--json" || name == "--threads",
                         "unknown option {}; usage: {} [--only NAME] [--json FILE] [--threads 1,2]", name, argv[0]);
    require<ConfigError>(i + 1 < argc, "{} needs a value", name);
    const std::string value = argv[++i];
    if (name == "--only") options.only = value;
    if (name == "--json") options.json = value;
    if (name == "--threads") {
      options.threads.clear();
      std::stringstream parts(value);
      for (std::string part; std::getline(parts, part, ',');) {
        const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
        require<ConfigError>(number && part.size() < 5 && std::stoi(part) > 0,
                             "--threads {}: '{}' is no number of threads", value, part);
        options.threads.push_back(std::stoi(part));
      }
    }
  }
  return options;
}

Report::Report(Options options) : options_(std::move(options)) {
  fmt::print("{:<18} {:<20} {:<12} {:>7} {:>11} {:>11} {:>13} {:>7} {:>9} {:>7}\n", "operation", "shape",
             "implementation", "threads", "best", "median", "rate", "limit", "OpenBLAS", "GEMM");
}

namespace {
std::string seconds(double s) {
  return s < 1e-3 ? fmt::format("{:.1f} us", s * 1e6)
         : s < 1  ? fmt::format("{:.3f} ms", s * 1e3)
                  : fmt::format("{:.3f} s", s);
}
}  // namespace

void Report::add(const Row& row) {
  const double rate = row.work / row.time.best, limit = limits_(row.limit, row.threads);
  fmt::print("{:<18} {:<20} {:<12} {:>9} {:>11} {:>11} {:>6.1f} {:<7} {:>5.1f} % {:>8} {:>8}\n", row.operation,
             row.shape, row.implementation, row.threads, seconds(row.time.best), seconds(row.time.median), rate / 1e9,
             row.limit == "copy" ? "GB/s" : "GFLOP/s", 100 * rate / limit,
             row.openblas_ratio ? fmt::format("x {:.2f}", *row.openblas_ratio) : "",
             row.gemm_ratio ? fmt::format("{:.1f} %", 100 * *row.gemm_ratio) : "");
  std::fflush(stdout);
  rows_.push_back(row);
}

void Report::write_json() {
  if (options_.json.empty()) return;
  nlohmann::json all = nlohmann::json::array();
  for (const Row& row : rows_) {
    const double rate = row.work / row.time.best, limit = limits_(row.limit, row.threads);
    nlohmann::json entry = {{"operation", row.operation},
                            {"shape", row.shape},
                            {"implementation", row.implementation},
                            {"threads", row.threads},
                            {"seconds", row.time.best},
                            {"median_seconds", row.time.median},
                            {"repetitions", row.time.repetitions},
                            {"rate", rate},
                            {"unit", row.limit == "copy" ? "B/s" : "FLOP/s"},
                            {"limit", limit},
                            {"share_of_limit", rate / limit}};
    if (row.openblas_ratio) entry["openblas_ratio"] = *row.openblas_ratio;
    if (row.gemm_ratio) entry["gemm_ratio"] = *row.gemm_ratio;
    all.push_back(std::move(entry));
  }
  std::ofstream file(options_.json);
  file << all.dump(2) << "\n";
  file.close();
  require<FileError>(!file.fail(), "{}: cannot be written", options_.json);
}

}  // namespace rapt::bench
