// Logits, loss and every gradient of tiny models of each family against PyTorch.
#include <rapt/autograd/tape.hpp>
#include <support/torch_model.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

namespace rapt::testing {
namespace {

struct Bounds {
  double logits, loss, gradients;  ///< relative to the largest element
};

class TorchModels : public ::testing::TestWithParam<const char*> {
 protected:
  /// A gradient that is 0 by theory (a bias of keys moves all scores of a row alike) is rounding noise in both programs,
  /// so a gradient is measured against at least a thousandth of the largest one of the model.
  static void expect_gradients(const TorchModel& model, double bound) {
    double overall = 0;
    for (const auto& entry : model.parameters().entries())
      overall = std::max(overall, largest(model.tensor("grad." + entry.name)));
    for (const auto& entry : model.parameters().entries()) {
      const Tensor want = model.tensor("grad." + entry.name);
      const double scale = std::max(largest(want), 1e-3 * overall);
      EXPECT_LE(largest_difference(model.gradient(entry), want), bound * scale) << entry.name;
    }
  }

  static void expect_equal(DType dtype, const Bounds& bounds) {
    const TorchModel model(GetParam(), dtype);
    const Tensor logits = model.tensor("logits");
    EXPECT_LE(largest_difference(model.logits(), logits), bounds.logits * largest(logits));
    const Tensor loss = model.loss();
    EXPECT_LE(largest_difference(loss, model.tensor("loss")), bounds.loss * model.tensor("loss").item());
    backward(loss);
    expect_gradients(model, bounds.gradients);
  }
};

TEST_P(TorchModels, HaveTheSameParameters) {
  const TorchModel model(GetParam(), DType::f64);
  std::set<std::string> ours, weights, gradients;
  for (const auto& entry : model.parameters().entries()) ours.insert(entry.name);
  for (const std::string& name : model.file().names()) {
    if (name.starts_with("weight.")) weights.insert(name.substr(7));
    if (name.starts_with("grad.")) gradients.insert(name.substr(5));
  }
  EXPECT_EQ(ours, weights);
  EXPECT_EQ(ours, gradients);
}

TEST_P(TorchModels, AgreeInF64) { expect_equal(DType::f64, {.logits = 1e-10, .loss = 1e-10, .gradients = 1e-9}); }

TEST_P(TorchModels, AgreeWhenLayersAreRecomputed) {
  const TorchModel model(GetParam(), DType::f64);
  backward(model.loss(true));
  expect_gradients(model, 1e-9);
}

TEST_P(TorchModels, AgreeInF32) { expect_equal(DType::f32, {.logits = 1e-4, .loss = 1e-4, .gradients = 1e-4}); }

TEST_P(TorchModels, AreCloseInBf16) {
  const TorchModel model(GetParam(), DType::bf16);
  const double want = model.tensor("loss").item();
  EXPECT_NEAR(model.loss().item(), want, 0.02 * want);
}

INSTANTIATE_TEST_SUITE_P(All, TorchModels, ::testing::ValuesIn(kTorchModels),
                         [](const auto& info) { return std::string(info.param); });

TEST(TorchModelFiles, AreAllTested) {
  const std::set<std::string> tested(std::begin(kTorchModels), std::end(kTorchModels));
  std::set<std::string> there;
  for (const auto& entry : std::filesystem::directory_iterator(torch_model_folder())) there.insert(entry.path().stem());
  EXPECT_EQ(tested, there);
}

}  // namespace
}  // namespace rapt::testing
