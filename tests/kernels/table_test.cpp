// The modes of the table of operation cases: check and support.
#include <kernels/cases.hpp>
#include <rapt/base/error.hpp>

#include <cstdlib>
#include <set>

namespace rapt::testing {
namespace {

using namespace kernels;

class Check : public ::testing::TestWithParam<std::tuple<size_t, DType>> {};

TEST_P(Check, EveryImplementationEqualsTheReference) {
  const auto& [index, dtype] = GetParam();
  operations()[index].check(dtype);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Check,
                         ::testing::Combine(::testing::Range(size_t(0), operations().size()),
                                            ::testing::ValuesIn(kFloatingDTypes)),
                         [](const auto& info) {
                           return operations()[std::get<0>(info.param)].op + "_" + to_string(std::get<1>(info.param));
                         });

TEST(Support, EveryOperationOfTheKernelsHasCases) {
  std::set<std::string> with_cases;
  for (const auto& o : operations()) with_cases.insert(o.op);
  std::set<std::string> known;
  for (const auto& row : kernel_table()) known.insert(row.op);
  EXPECT_EQ(with_cases, known);
}

TEST(Support, TheReferenceStandsLastAndIsAlwaysAvailable) {
  for (const auto& row : kernel_table()) {
    ASSERT_FALSE(row.implementations.empty()) << row.op;
    EXPECT_EQ(row.implementations.back().name, "reference") << row.op;
    EXPECT_TRUE(row.implementations.back().available) << row.op;
  }
}

TEST(Support, EveryImplementationTakesSomeCase) {
  for (const auto& row : kernel_table()) {
    const auto o =
        std::find_if(operations().begin(), operations().end(), [&](const auto& o) { return o.op == row.op; });
    ASSERT_NE(o, operations().end()) << row.op;
    for (const auto& entry : row.implementations)
      EXPECT_TRUE(!entry.available || o->reaches(entry.name)) << row.op << ": no case reaches " << entry.name;
  }
}

/// Forces something for the length of a scope.
struct Forced {
  explicit Forced(const std::string& spec) { force_implementations(spec); }
  ~Forced() { force_implementations(""); }
};

std::string refusal(const std::string& spec) {
  try {
    const Forced forced(spec);
  } catch (const KernelError& e) {
    return e.what();
  }
  return "";
}

UnaryForward some_call() {
  const Tensor x = Tensor::full({64}, 0.5);
  return {Unary::tanh, x, Tensor::empty({64})};
}

TEST(Support, AForcedImplementationIsChosen) {
  for (const auto& candidate : implementations<UnaryForward>()) {
    if (!candidate.available() || !candidate.supports(some_call())) continue;
    const Forced forced(std::string("unary:") + candidate.name);
    EXPECT_STREQ(chosen(some_call()).name, candidate.name);
  }
}

TEST(Support, ReleasingGivesTheBestOneBack) {
  const std::string best = chosen(some_call()).name;
  { const Forced forced("unary:reference,gemm:reference"); }
  EXPECT_EQ(chosen(some_call()).name, best);
}

TEST(Support, WhatDoesNotExistCannotBeForced) {
  EXPECT_EQ(refusal("nonsense:reference"), "[kernels] no operation is called 'nonsense'");
  EXPECT_NE(refusal("gemm:nonsense").find("[gemm] has no implementation 'nonsense'; available here: "),
            std::string::npos);
  EXPECT_NE(refusal("gemm:nonsense").find("reference"), std::string::npos);
  EXPECT_EQ(refusal("gemm"), "[kernels] 'gemm' is not of the form op:implementation");
  EXPECT_NE(refusal("unary:reference,gemm:nonsense"), "");
}

TEST(Support, WhatThisMachineLacksCannotBeForced) {
  for (const auto& row : kernel_table())
    for (const auto& entry : row.implementations)
      if (!entry.available) {
        EXPECT_NE(refusal(row.op + ":" + entry.name).find("available here"), std::string::npos);
      }
}

TEST(Support, ARefusedSpecChangesNothing) {
  const Forced forced("unary:reference");
  EXPECT_THROW(force_implementations("unary:nonsense"), KernelError);
  EXPECT_STREQ(chosen(some_call()).name, "reference");
}

/// The environment is read once, so each case is a process of its own.
TEST(SupportDeathTest, TheEnvironmentForcesToo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("RAPT_KERNEL", "unary:reference", 1);
        std::exit(std::string(chosen(some_call()).name) == "reference" ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        setenv("RAPT_KERNEL", "unary:nonsense", 1);
        try {
          launch(some_call());
        } catch (const KernelError& e) {
          std::fputs(e.what(), stderr);
          std::exit(3);
        }
        std::exit(0);
      },
      ::testing::ExitedWithCode(3), "has no implementation 'nonsense'");
}

TEST(Support, TheProfileCountsCalls) {
  start_profile();
  const Forced forced("unary:reference");
  for (int i = 0; i < 3; ++i) launch(some_call());
  const auto rows = stop_profile();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].op, "unary");
  EXPECT_EQ(rows[0].implementation, "reference");
  EXPECT_EQ(rows[0].calls, 3);
  EXPECT_GE(rows[0].seconds, 0);
}

}  // namespace
}  // namespace rapt::testing
