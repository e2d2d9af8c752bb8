#pragma once
// One table of operation cases, and what is done with it. An operation is a list of cases; a case builds the arguments
// of one call from a workspace. Implementations are found in the kernel table, so a new one is tested without a word here.
#include <kernels/kernels.hpp>
#include <support/workspace.hpp>

#include <functional>
#include <string>
#include <vector>

namespace rapt::testing {

template <class Args>
struct Case {
  std::string name;
  std::function<Args(Workspace&)> build;
  double slack = 1;  ///< factor on error_bound, where an operation amplifies rounding
};

/// Every available implementation, in every layout, against the reference in the plain layout. The reference is among
/// the candidates: its strides are tested too. `only` leaves the implementation of that name.
template <class Args>
void check(const Case<Args>& c, DType dtype, const std::string& only = "") {
  const uint64_t seed = seed_for(1, c.name.c_str());
  const auto& all = kernels::implementations<Args>();
  Workspace wanted(dtype, Layout::plain, seed);
  const Args wanted_args = c.build(wanted);
  wanted.seal();
  all.back().run(wanted_args);
  for (const auto& candidate : all)
    for (const Layout layout : kLayouts) {
      if (!candidate.available() || (!only.empty() && only != candidate.name)) continue;
      if (!wanted.distinguishes(layout)) continue;
      Workspace got(dtype, layout, seed);
      const Args args = c.build(got);
      if (!candidate.supports(args)) continue;
      SCOPED_TRACE(std::string(Args::op) + ", " + candidate.name + ", " + c.name + ", " + to_string(dtype) + ", " +
                   to_string(layout));
      got.seal();
      candidate.run(args);
      got.expect_nothing_else_changed();
      got.expect_outputs_like(wanted, c.slack);
    }
}

/// An operation of the table, its argument type forgotten.
struct Operation {
  std::string op;
  std::function<void(DType)> check;
  std::function<void(DType, const std::string& implementation)> check_only;
  /// Does an implementation of this name take at least one of the cases?
  std::function<bool(const std::string& implementation)> reaches;
};

inline constexpr DType kFloatingDTypes[] = {DType::f64, DType::f32, DType::bf16};

template <class Args>
Operation operation(std::vector<Case<Args>> cases) {
  const auto check_all = [cases](DType dtype) {
    for (const auto& c : cases) check(c, dtype);
  };
  const auto check_only = [cases](DType dtype, const std::string& name) {
    for (const auto& c : cases) check(c, dtype, name);
  };
  const auto reaches = [cases](const std::string& name) {
    for (const auto& candidate : kernels::implementations<Args>())
      for (const auto& c : cases)
        for (const DType dtype : kFloatingDTypes) {
          Workspace workspace(dtype, Layout::plain, 1);
          if (name == candidate.name && candidate.supports(c.build(workspace))) return true;
        }
    return false;
  };
  return {Args::op, check_all, check_only, reaches};
}

}  // namespace rapt::testing
