#pragma once
#include <rapt/nn/embedding.hpp>
#include <rapt/nn/transformer.hpp>

#include <memory>
#include <string>

namespace rapt::models {

/// GPT-2's shape by default (124M sizes); `llama_shape` gives the other common one.
struct DecoderOnlyConfig {
  int64_t vocabulary = 0;
  int64_t d_model = 768, d_ff = 3072, layers = 12, heads = 12, key_heads = 0;
  int64_t max_positions = 1024;
  double dropout = 0.1, attention_dropout = 0.1;
  Activation activation = Activation::gelu_tanh;
  bool gated = false;
  NormKind norm = NormKind::layer;
  double norm_eps = 1e-5;
  nn::Position position = nn::Position::learned;
  double rotary_base = 10000;
  bool rotary_interleaved = false;
  bool bias = true;  ///< in linear maps
  bool tie_embeddings = true;
  bool scaled_attention = true;
  int64_t bos_id = 1, eos_id = 2;

  /// Rotary positions, RMSNorm, SwiGLU, no biases, untied.
  static DecoderOnlyConfig llama_shape();
  static DecoderOnlyConfig from_json(const std::string& text, const std::string& label = "config.json");
  std::string to_json() const;
  void check() const;
};

class DecoderOnly {
 public:
  using Config = DecoderOnlyConfig;
  DecoderOnly(const Config& config, std::unique_ptr<nn::Parameters> parameters);
  explicit DecoderOnly(const Config& config, uint64_t seed = 1, DType dtype = DType::f32)
      : DecoderOnly(config, std::make_unique<nn::Parameters>(seed, dtype)) {}

  /// tokens [B, T], lengths [B] or undefined -> [B, T, d_model].
  Tensor decode(const Tensor& tokens, const Tensor& lengths, nn::Context& ctx) const;
  Tensor logits(const Tensor& hidden) const;
  Tensor loss(const Tensor& tokens, const Tensor& lengths, const Tensor& labels, const CrossEntropyOptions& options,
              nn::Context& ctx) const;

  const Config& config() const { return config_; }
  nn::Parameters& parameters() const { return *parameters_; }

 private:
  Config config_;
  std::unique_ptr<nn::Parameters> parameters_;
  nn::Scope root_;
  Tensor table_, output_;
  nn::Embedding embedding_;
  nn::EncoderStack blocks_;
};

}  // namespace rapt::models
