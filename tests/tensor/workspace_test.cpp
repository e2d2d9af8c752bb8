// What guards the kernels is guarded here: a workspace must notice every kind of mistake.
#include <support/workspace.hpp>

#include <gtest/gtest-spi.h>

namespace rapt::testing {
namespace {

/// The byte `distance` bytes after (or before) the first element of t.
std::byte& near(const Tensor& t, int64_t distance) { return t.raw()[distance]; }

TEST(Workspace, GivesTheSameValuesInEveryLayout) {
  Workspace plain(DType::f32, Layout::plain, 1);
  const Tensor wanted = plain.input({3, 4, 5}, {.freedom = Freedom::any});
  for (const Layout layout : kLayouts) {
    Workspace other(DType::f32, layout, 1);
    EXPECT_EQ(other.input({3, 4, 5}, {.freedom = Freedom::any}).to_vector(), wanted.to_vector());
  }
}

TEST(Workspace, KeepsToTheFreedomOfATensor) {
  for (const Layout layout : kLayouts) {
    Workspace w(DType::f32, layout, 1);
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(w.input({3, 4}).is_contiguous());
      EXPECT_EQ(w.input({3, 4}, {.freedom = Freedom::rows}).stride(-1), 1);
      const Tensor matrix = w.input({3, 4}, {.freedom = Freedom::matrix});
      EXPECT_TRUE(matrix.stride(0) == 1 || matrix.stride(1) == 1);
    }
  }
  Workspace spread(DType::f32, Layout::spread, 1);
  EXPECT_EQ(spread.input({3, 4}, {.freedom = Freedom::any}).stride(-1), 2);
}

void change_guard_before() {
  Workspace w(DType::f32, Layout::shifted, 1);
  const Tensor y = w.output("y", {5});
  w.seal();
  near(y, -1) = std::byte(0);
  w.expect_nothing_else_changed();
}
void change_gap_between_rows() {
  Workspace w(DType::bf16, Layout::padded, 1);
  const Tensor y = w.output("y", {2, 5}, {.freedom = Freedom::rows});
  w.seal();
  near(y, 2 * 5) = std::byte(0);
  w.expect_nothing_else_changed();
}
void change_input() {
  Workspace w(DType::f32, Layout::plain, 1);
  const Tensor x = w.input({5});
  w.seal();
  x.fill(7);
  w.expect_nothing_else_changed();
}

TEST(Workspace, NoticesWritesOutsideOfTheResults) {
  EXPECT_NONFATAL_FAILURE(change_guard_before(), "what surrounds 'y' was overwritten");
  EXPECT_NONFATAL_FAILURE(change_gap_between_rows(), "what surrounds 'y' was overwritten");
  EXPECT_NONFATAL_FAILURE(change_input(), "an input was overwritten");
}

void compare_results(double got_value, double want_value) {
  Workspace got(DType::f32, Layout::plain, 1), want(DType::f32, Layout::plain, 1);
  got.output("y", {5}).fill(got_value);
  want.output("y", {5}).fill(want_value);
  got.expect_outputs_like(want, 1);
}

TEST(Workspace, NoticesWrongResults) {
  compare_results(1.000001, 1);
  compare_results(HUGE_VAL, HUGE_VAL);
  EXPECT_NONFATAL_FAILURE(compare_results(1.0001, 1), "in y");
  EXPECT_NONFATAL_FAILURE(compare_results(std::nan(""), 1), "in y");
  EXPECT_NONFATAL_FAILURE(compare_results(1, std::nan("")), "in y");
  EXPECT_NONFATAL_FAILURE(compare_results(HUGE_VAL, -HUGE_VAL), "in y");
  EXPECT_NONFATAL_FAILURE(compare_results(1e-3, 0), "in y");
}

TEST(Workspace, ResultsMayChange) {
  Workspace w(DType::f32, Layout::transposed, 1);
  const Tensor y = w.output("y", {4, 5}, {.freedom = Freedom::matrix});
  w.seal();
  y.fill(3);
  w.expect_nothing_else_changed();
}

}  // namespace
}  // namespace rapt::testing
