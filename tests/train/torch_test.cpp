// Ten optimiser steps of tiny models of each family against PyTorch's.
#include <rapt/autograd/tape.hpp>
#include <rapt/train/optimiser.hpp>
#include <support/torch_model.hpp>

#include <gtest/gtest.h>

namespace rapt::testing {
namespace {

train::Rule rule_of(const TorchModel& model) {
  const std::string kind = model.text("optimiser");
  if (kind == "sgd") return train::Sgd{.momentum = model.number("momentum")};
  if (kind != "adam" && kind != "adamw") throw std::invalid_argument("no optimiser is called " + kind);
  return train::Adam{.beta1 = model.number("beta1"),
                     .beta2 = model.number("beta2"),
                     .eps = model.number("eps"),
                     .decay = model.number("decay")};
}

class TorchTraining : public ::testing::TestWithParam<const char*> {
 protected:
  /// `bound` is relative to the first loss.
  static void expect_losses(DType dtype, double bound) {
    const TorchModel model(GetParam(), dtype);
    const double first = model.tensor("loss").item();
    train::Optimiser optimiser(model.parameters(), rule_of(model));
    for (const double want : model.tensor("losses").to_vector()) {
      model.parameters().zero_grad();
      const Tensor loss = model.loss();
      backward(loss);
      EXPECT_NEAR(loss.item(), want, bound * first) << "before step " << optimiser.steps() + 1;
      EXPECT_TRUE(optimiser.step(model.number("lr"), model.number("clip")).finite);
    }
  }
};

TEST_P(TorchTraining, HasTheSameLossesInF64) { expect_losses(DType::f64, 1e-10); }
TEST_P(TorchTraining, HasTheSameLossesInF32) { expect_losses(DType::f32, 1e-5); }
TEST_P(TorchTraining, HasCloseLossesInBf16) { expect_losses(DType::bf16, 0.02); }

INSTANTIATE_TEST_SUITE_P(All, TorchTraining, ::testing::ValuesIn(kTorchModels),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace rapt::testing
