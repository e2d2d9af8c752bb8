#include <base/fail.hpp>
#include <models/config_names.hpp>
#include <rapt/models/decoder_only.hpp>

namespace rapt::models {
namespace {

constexpr double kDeviation = 0.02;  // of all matrices, as GPT-2 draws them

nn::LayerShape layer_shape(const DecoderOnlyConfig& c) {
  nn::LayerShape s;
  s.attention.d_model = c.d_model;
  s.attention.h = c.heads;
  s.attention.g = c.key_heads;
  s.attention.p = float(c.attention_dropout);
  s.attention.position = c.position;
  s.attention.rotary_base = c.rotary_base;
  s.attention.rotary_interleaved = c.rotary_interleaved;
  s.attention.scaled = c.scaled_attention;
  s.attention.linear = {.bias = c.bias, .deviation = kDeviation};
  s.d_ff = c.d_ff;
  s.act = c.activation;
  s.gated = c.gated;
  s.norm = {c.norm, c.norm_eps};
  s.pre_norm = true;
  s.p = float(c.dropout);
  return s;
}

}  // namespace

template <class Archive>
void describe(Archive& a, DecoderOnlyConfig& c) {
  a.constant("model_type", "rapt-decoder");
  a.required("vocabulary", c.vocabulary, size_range());
  a.required("d_model", c.d_model, size_range());
  a.required("d_ff", c.d_ff, size_range());
  a.required("layers", c.layers, layer_range());
  a.required("heads", c.heads, size_range());
  a("key_heads", c.key_heads, between<int64_t>(0, kLargestSize));
  a("max_positions", c.max_positions, size_range());
  a("dropout", c.dropout, rate_range());
  a("attention_dropout", c.attention_dropout, rate_range());
  a("activation", c.activation, kActivationNames);
  a("gated", c.gated);
  a("norm", c.norm, kNormNames);
  a("norm_eps", c.norm_eps, above(0.0));
  a("position", c.position, kPositionNames);
  a("rotary_base", c.rotary_base, above(1.0));
  a("rotary_interleaved", c.rotary_interleaved);
  a("bias", c.bias);
  a("tie_embeddings", c.tie_embeddings);
  a("scaled_attention", c.scaled_attention);
  a("bos_id", c.bos_id, between<int64_t>(0, kLargestSize));
  a("eos_id", c.eos_id, between<int64_t>(0, kLargestSize));
}

DecoderOnlyConfig DecoderOnlyConfig::llama_shape() {
  DecoderOnlyConfig c;
  c.gated = true;
  c.norm = NormKind::rms;
  c.position = nn::Position::rotary;
  c.bias = false;
  c.tie_embeddings = false;
  c.dropout = c.attention_dropout = 0;
  return c;
}

DecoderOnlyConfig DecoderOnlyConfig::from_json(const std::string& text, const std::string& label) {
  return checked(read_config<DecoderOnlyConfig>(text, label));
}

std::string DecoderOnlyConfig::to_json() const { return write_config(*this); }

void DecoderOnlyConfig::check() const {
  require<ConfigError>(vocabulary > 0 && layers > 0 && d_ff > 0 && max_positions > 0,
                       "[decoder] vocabulary {}, {} layers, d_ff {}, max_positions {}: all must be at least 1",
                       vocabulary, layers, d_ff, max_positions);
  require_rate("decoder", "dropout", dropout);
  require_rate("decoder", "attention_dropout", attention_dropout);
  require_eps("decoder", norm_eps);
  layer_shape(*this).attention.resolved();
  require_ids({{"bos_id", bos_id}, {"eos_id", eos_id}}, vocabulary);
  require<ConfigError>(rotary_base > 1, "[decoder] rotary_base {} must be above 1", rotary_base);
}

DecoderOnly::DecoderOnly(const Config& config, std::unique_ptr<nn::Parameters> parameters)
    : config_(checked(config)),
      parameters_(std::move(parameters)),
      root_(*parameters_),
      table_(nn::TokenTable(root_ / "embedding" / "tokens", config_.vocabulary, config_.d_model, kDeviation).W),
      output_(config_.tie_embeddings ? table_
                                     : root_.parameter("output.weight", {config_.vocabulary, config_.d_model},
                                                       nn::Init::normal(kDeviation))),
      embedding_(table_,
                 nn::position_table(root_ / "embedding" / "positions", config_.position, config_.max_positions,
                                    config_.d_model, parameters_->dtype()),
                 1, float(config_.dropout)),
      blocks_(root_ / "blocks", config_.layers, layer_shape(config_)) {
  parameters_->freeze_layout();
}

Tensor DecoderOnly::decode(const Tensor& tokens, const Tensor& lengths, nn::Context& ctx) const {
  return blocks_(embedding_(tokens, ctx), {lengths, true}, ctx);
}

Tensor DecoderOnly::logits(const Tensor& hidden) const { return linear(hidden, output_); }

Tensor DecoderOnly::loss(const Tensor& tokens, const Tensor& lengths, const Tensor& labels,
                         const CrossEntropyOptions& options, nn::Context& ctx) const {
  return projected_cross_entropy(decode(tokens, lengths, ctx), output_, {}, labels, options);
}

}  // namespace rapt::models
