#pragma once
#include <support/timing.hpp>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rapt::bench {

/// What the machine can do at most, measured once in this run when first asked for.
class Limits {
 public:
  /// Operations a second: "f32", "bf16" or "int8" by the best loop of that type; bytes a second: "copy".
  double operator()(const std::string& kind, int threads);

 private:
  std::map<std::pair<std::string, int>, double> measured_;
};

struct Row {
  std::string operation, shape, implementation;
  int threads = 1;
  Timing time;
  double work = 0;                        ///< operations or bytes of one call
  std::string limit = "f32";              ///< the kind of limit that it is measured against; "copy" means bytes
  std::optional<double> openblas_ratio;   ///< time of OpenBLAS / our time: above 1 we are faster
  std::optional<double> gemm_ratio = {};  ///< our rate / the rate of our matrix product, measured in turns
};

/// --only NAME (rows whose operation begins so), --json FILE, --threads 1,2. Throws ConfigError on anything else.
struct Options {
  std::string only, json;
  std::vector<int> threads = {1, 2};
};
Options parse_options(int argc, char** argv);

/// Collects rows and prints each as it comes; writes the JSON file at the end.
class Report {
 public:
  explicit Report(Options options);
  const Options& options() const { return options_; }
  bool wants(const std::string& operation) const { return operation.rfind(options_.only, 0) == 0; }
  void add(const Row& row);
  void write_json();

 private:
  Options options_;
  Limits limits_;
  std::vector<Row> rows_;
};

}  // namespace rapt::bench
