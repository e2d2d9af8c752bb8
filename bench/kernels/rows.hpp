#pragma once
// One file an operation; each measures its operation at the shapes that matter and adds rows.
#include <support/report.hpp>

namespace rapt::bench {

void gemm_rows(Report& report);
void attention_rows(Report& report);
/// What moves memory: elementwise, norms, softmax, loss, lookups, optimiser.
void bandwidth_rows(Report& report);

}  // namespace rapt::bench
