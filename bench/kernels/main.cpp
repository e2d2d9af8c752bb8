#include <kernels/rows.hpp>
#include <rapt/base/error.hpp>

#include <fmt/format.h>

#include <cstdio>

int main(int argc, char** argv) {
  try {
    rapt::bench::Report report(rapt::bench::parse_options(argc, argv));
    rapt::bench::gemm_rows(report);
    rapt::bench::attention_rows(report);
    rapt::bench::bandwidth_rows(report);
    report.write_json();
  } catch (const rapt::Error& error) {
    fmt::print(stderr, "bench_kernels: {}\n", error.what());
    return 1;
  }
  return 0;
}
