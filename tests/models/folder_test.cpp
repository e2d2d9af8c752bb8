// Every family goes through its folder and comes back: weights in each type, config.json, and what does not fit.
#include <rapt/models/folder.hpp>
#include <rapt/models/safetensors.hpp>
#include <support/expect_error.hpp>

#include <gtest/gtest.h>

#include <filesystem>

namespace rapt::models {
namespace {

class FolderTest : public ::testing::Test {
 protected:
  FolderTest() {
    folder_ = std::filesystem::temp_directory_path() /
              (std::string("rapt_folder_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
  }
  ~FolderTest() override { std::filesystem::remove_all(folder_); }

  /// Saved as `dtype`, each weight comes back rounded to it, and the config says the same.
  template <class Model>
  void round_trip(const Model& model) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      save(model, folder_, dtype);
      const auto loaded = load<Model>(folder_);
      EXPECT_EQ(loaded->config().to_json(), model.config().to_json());
      ASSERT_EQ(loaded->parameters().entries().size(), model.parameters().entries().size());
      for (const auto& entry : model.parameters().entries())
        EXPECT_EQ(loaded->parameters().find(entry.name).to_vector(), entry.tensor.to(dtype).to_vector()) << entry.name;
    }
  }
  std::filesystem::path folder_;
};

EncoderDecoderConfig small_encoder_decoder() {
  EncoderDecoderConfig c;
  c.source_vocabulary = c.target_vocabulary = 11;
  c.d_model = 8;
  c.d_ff = 12;
  c.heads = 2;
  c.encoder_layers = c.decoder_layers = 1;
  return c;
}

TEST_F(FolderTest, EncoderDecoder) {
  round_trip(EncoderDecoder(small_encoder_decoder(), 3));
  EXPECT_EQ(model_type(folder_), "rapt-encoder-decoder");
}

TEST_F(FolderTest, EncoderOnly) {
  EncoderOnlyConfig c;
  c.vocabulary = 11;
  c.d_model = 8;
  c.d_ff = 12;
  c.layers = 1;
  c.heads = 2;
  c.head = Head::masked_lm;
  round_trip(EncoderOnly(c, 3));
}

TEST_F(FolderTest, DecoderOnly) {
  DecoderOnlyConfig c = DecoderOnlyConfig::llama_shape();
  c.vocabulary = 11;
  c.d_model = 8;
  c.d_ff = 12;
  c.layers = 1;
  c.heads = 4;
  c.key_heads = 2;
  round_trip(DecoderOnly(c, 3));
}

TEST_F(FolderTest, Recurrent) {
  RecurrentSeq2SeqConfig c;
  c.source_vocabulary = c.target_vocabulary = 11;
  c.d_embedding = 6;
  c.d_hidden = 5;
  c.cell = Cell::lstm;
  round_trip(RecurrentSeq2Seq(c, 3));
}

TEST_F(FolderTest, WhatIsMissingOrTooMuchIsNamed) {
  const EncoderDecoder model(small_encoder_decoder(), 3);
  save(model, folder_);
  std::vector<NamedTensor> tensors;
  for (const auto& entry : model.parameters().entries())
    if (entry.name != "encoder.0.ffn.w1.weight") tensors.push_back({entry.name, entry.tensor});
  tensors.push_back({"stranger", Tensor::zeros({2})});
  save_safetensors(folder_ / "model.safetensors", tensors);
  rapt::testing::expect_error<FileError>("'encoder.0.ffn.w1.weight' [12, 8] is missing",
                                         [&] { load<EncoderDecoder>(folder_); });
  rapt::testing::expect_error<FileError>("'stranger' is in the file and not in the model",
                                         [&] { load<EncoderDecoder>(folder_); });
}

TEST_F(FolderTest, RefusesWhatF16CannotHoldAndTooManyLayers) {
  const EncoderDecoder model(small_encoder_decoder(), 3);
  model.parameters().find("encoder.0.ffn.w1.bias").fill(1e6);
  rapt::testing::expect_error<DTypeError>("encoder.0.ffn.w1.bias", [&] { save(model, folder_, DType::f16); });
  EncoderDecoderConfig deep = small_encoder_decoder();
  deep.encoder_layers = 20000;
  rapt::testing::expect_error<ConfigError>("encoder_layers", [&] { EncoderDecoderConfig::from_json(deep.to_json()); });
}

}  // namespace
}  // namespace rapt::models
