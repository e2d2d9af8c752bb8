#pragma once
// The blocked product: one driver for every micro-kernel.
#include <kernels/cpu/gemm_micro.hpp>
#include <kernels/kernels.hpp>

namespace rapt::kernels::cpu {

/// Whether the driver can read A and B (one unit stride) and write C, whatever the types are.
bool driver_takes(const Gemm& args);

/// Runs the product with one micro-kernel. Each element of C is summed in an order that depends on K, on the kernel and
/// on whether M is at most kFewRows, so the result is the same for every number of threads.
void run_gemm(const GemmKernel& kernel, const Gemm& args);

}  // namespace rapt::kernels::cpu
