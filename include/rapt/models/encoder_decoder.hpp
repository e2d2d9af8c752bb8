#pragma once
#include <rapt/nn/embedding.hpp>
#include <rapt/nn/transformer.hpp>

#include <memory>
#include <string>

namespace rapt::models {

enum class Tying {
  none,
  decoder,  ///< target embedding and output projection are one table
  all,      ///< and so is the source embedding: one vocabulary for both sides
};

struct EncoderDecoderConfig {
  int64_t source_vocabulary = 0, target_vocabulary = 0;
  int64_t d_model = 512, d_ff = 2048;
  int64_t encoder_layers = 6, decoder_layers = 6;
  int64_t heads = 8, key_heads = 0;  ///< key_heads 0: as many as heads
  double dropout = 0.1, attention_dropout = 0, activation_dropout = 0;
  Activation activation = Activation::relu;
  bool gated = false;  ///< SwiGLU feed-forward
  NormKind norm = NormKind::layer;
  double norm_eps = 1e-5;
  bool pre_norm = false;
  nn::Position position = nn::Position::sinusoidal;
  int64_t max_positions = 1024;
  bool scale_embedding = true;   ///< by sqrt(d_model)
  bool scaled_attention = true;  ///< scores divided by sqrt(d_k)
  Tying tying = Tying::all;
  int64_t pad_id = 0, bos_id = 1, eos_id = 2;

  /// "tiny" and "small" (3+3 layers, 256/1024, 4 heads; tiny has 128/512), "base" and "big" (the paper's table 3).
  static EncoderDecoderConfig preset(const std::string& name);
  static EncoderDecoderConfig from_json(const std::string& text, const std::string& label = "config.json");
  std::string to_json() const;
  void check() const;  ///< throws ConfigError on what does not fit together
};

/// The Transformer of "Attention Is All You Need".
class EncoderDecoder {
 public:
  using Config = EncoderDecoderConfig;
  EncoderDecoder(const Config& config, std::unique_ptr<nn::Parameters> parameters);
  explicit EncoderDecoder(const Config& config, uint64_t seed = 1, DType dtype = DType::f32)
      : EncoderDecoder(config, std::make_unique<nn::Parameters>(seed, dtype)) {}

  /// source [B, S] ids, lengths [B] or undefined -> memory [B, S, d_model].
  Tensor encode(const Tensor& source, const Tensor& lengths, nn::Context& ctx) const;
  /// target [B, T] ids (shifted right) -> [B, T, d_model].
  Tensor decode(const Tensor& target, const Tensor& memory, const Tensor& source_lengths, nn::Context& ctx) const;
  /// [.., d_model] -> [.., V]
  Tensor logits(const Tensor& hidden) const;

  /// Teacher forcing: the loss of `labels` [B, T] given the source and `target_in` [B, T].
  Tensor loss(const Tensor& source, const Tensor& source_lengths, const Tensor& target_in, const Tensor& labels,
              const CrossEntropyOptions& options, nn::Context& ctx) const;

  const Config& config() const { return config_; }
  nn::Parameters& parameters() const { return *parameters_; }

 private:
  Config config_;
  std::unique_ptr<nn::Parameters> parameters_;
  nn::Scope root_;
  Tensor target_table_, source_table_, output_table_;
  nn::Embedding source_embedding_, target_embedding_;
  nn::EncoderStack encoder_;
  nn::DecoderStack decoder_;
};

}  // namespace rapt::models
