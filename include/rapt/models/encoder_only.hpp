#pragma once
#include <rapt/nn/embedding.hpp>
#include <rapt/nn/transformer.hpp>

#include <memory>
#include <optional>
#include <string>

namespace rapt::models {

/// What stands on top of the encoder.
enum class Head {
  none,
  masked_lm,   ///< a word for every position: V(norm(gelu(W x))), tied to the embedding
  classifier,  ///< a class for the whole: W tanh(W_p x_0)
  tagger,      ///< a class for every position
};

/// BERT's shape, with base's sizes as defaults.
struct EncoderOnlyConfig {
  int64_t vocabulary = 0;
  int64_t d_model = 768, d_ff = 3072, layers = 12, heads = 12;
  int64_t max_positions = 512, token_types = 2;
  double dropout = 0.1, attention_dropout = 0.1;
  Activation activation = Activation::gelu;
  NormKind norm = NormKind::layer;
  double norm_eps = 1e-12;
  bool pre_norm = false;
  nn::Position position = nn::Position::learned;
  Head head = Head::none;
  int64_t labels = 2;
  int64_t pad_id = 0;

  static EncoderOnlyConfig from_json(const std::string& text, const std::string& label = "config.json");
  std::string to_json() const;
  void check() const;
};

class EncoderOnly {
 public:
  using Config = EncoderOnlyConfig;
  EncoderOnly(const Config& config, std::unique_ptr<nn::Parameters> parameters);
  explicit EncoderOnly(const Config& config, uint64_t seed = 1, DType dtype = DType::f32)
      : EncoderOnly(config, std::make_unique<nn::Parameters>(seed, dtype)) {}

  /// tokens [B, T], types [B, T] or undefined (all 0), lengths [B] or undefined -> [B, T, d_model].
  Tensor encode(const Tensor& tokens, const Tensor& types, const Tensor& lengths, nn::Context& ctx) const;
  /// The head's answer for encoded x: [B, T, V], [B, labels] or [B, T, labels].
  Tensor logits(const Tensor& x, nn::Context& ctx) const;
  /// Cross-entropy of the head; `labels` has the shape of the answer without its last axis.
  Tensor loss(const Tensor& x, const Tensor& labels, const CrossEntropyOptions& options, nn::Context& ctx) const;

  const Config& config() const { return config_; }
  nn::Parameters& parameters() const { return *parameters_; }

 private:
  /// What the last linear map of the head sees.
  Tensor features(const Tensor& x, nn::Context& ctx) const;
  Tensor output_weight() const;

  Config config_;
  std::unique_ptr<nn::Parameters> parameters_;
  nn::Scope root_;
  Tensor table_, types_;
  nn::Embedding embedding_;
  nn::Norm embedding_norm_;
  nn::EncoderStack encoder_;
  std::optional<nn::Linear> transform_;  // the dense layer of the masked_lm head, or the pooler
  std::optional<nn::Norm> transform_norm_;
  std::optional<nn::Linear> output_;  // classifier and tagger
  Tensor output_bias_;                // masked_lm
};

}  // namespace rapt::models
