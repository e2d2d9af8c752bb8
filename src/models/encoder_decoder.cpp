#include <base/fail.hpp>
#include <models/config_names.hpp>
#include <rapt/models/encoder_decoder.hpp>

#include <cmath>

namespace rapt::models {
namespace {

constexpr EnumName<Tying> kTyingNames[] = {{"none", Tying::none}, {"decoder", Tying::decoder}, {"all", Tying::all}};

nn::LayerShape layer_shape(const EncoderDecoderConfig& c) {
  nn::LayerShape s;
  s.attention.d_model = c.d_model;
  s.attention.h = c.heads;
  s.attention.g = c.key_heads;
  s.attention.p = float(c.attention_dropout);
  s.attention.position = c.position;
  s.attention.scaled = c.scaled_attention;
  s.d_ff = c.d_ff;
  s.act = c.activation;
  s.gated = c.gated;
  s.norm = {c.norm, c.norm_eps};
  s.pre_norm = c.pre_norm;
  s.p = float(c.dropout);
  s.p_ffn = float(c.activation_dropout);
  return s;
}

}  // namespace

template <class Archive>
void describe(Archive& a, EncoderDecoderConfig& c) {
  a.constant("model_type", "rapt-encoder-decoder");
  a.required("source_vocabulary", c.source_vocabulary, size_range());
  a.required("target_vocabulary", c.target_vocabulary, size_range());
  a.required("d_model", c.d_model, size_range());
  a.required("d_ff", c.d_ff, size_range());
  a.required("encoder_layers", c.encoder_layers, layer_range());
  a.required("decoder_layers", c.decoder_layers, layer_range());
  a.required("heads", c.heads, size_range());
  a("key_heads", c.key_heads, between<int64_t>(0, kLargestSize));
  a("dropout", c.dropout, rate_range());
  a("attention_dropout", c.attention_dropout, rate_range());
  a("activation_dropout", c.activation_dropout, rate_range());
  a("activation", c.activation, kActivationNames);
  a("gated", c.gated);
  a("norm", c.norm, kNormNames);
  a("norm_eps", c.norm_eps, above(0.0));
  a("pre_norm", c.pre_norm);
  a("position", c.position, kPositionNames);
  a("max_positions", c.max_positions, size_range());
  a("scale_embedding", c.scale_embedding);
  a("scaled_attention", c.scaled_attention);
  a("tying", c.tying, kTyingNames);
  a("pad_id", c.pad_id, between<int64_t>(0, kLargestSize));
  a("bos_id", c.bos_id, between<int64_t>(0, kLargestSize));
  a("eos_id", c.eos_id, between<int64_t>(0, kLargestSize));
}

EncoderDecoderConfig EncoderDecoderConfig::from_json(const std::string& text, const std::string& label) {
  return checked(read_config<EncoderDecoderConfig>(text, label));
}

std::string EncoderDecoderConfig::to_json() const { return write_config(*this); }

void EncoderDecoderConfig::check() const {
  require<ConfigError>(source_vocabulary > 0 && target_vocabulary > 0,
                       "[encoder-decoder] vocabularies of {} and {} tokens: both must be at least 1", source_vocabulary,
                       target_vocabulary);
  require<ConfigError>(
      tying != Tying::all || source_vocabulary == target_vocabulary,
      "[encoder-decoder] tying 'all' needs one vocabulary, but the source has {} tokens and the target {}",
      source_vocabulary, target_vocabulary);
  require<ConfigError>(encoder_layers > 0 && decoder_layers > 0 && d_ff > 0 && max_positions > 0,
                       "[encoder-decoder] {}+{} layers, d_ff {}, max_positions {}: all must be at least 1",
                       encoder_layers, decoder_layers, d_ff, max_positions);
  require_rate("encoder-decoder", "dropout", dropout);
  require_rate("encoder-decoder", "attention_dropout", attention_dropout);
  require_rate("encoder-decoder", "activation_dropout", activation_dropout);
  require_eps("encoder-decoder", norm_eps);
  layer_shape(*this).attention.resolved();
  require_ids({{"pad_id", pad_id}, {"bos_id", bos_id}, {"eos_id", eos_id}}, target_vocabulary);
}

EncoderDecoderConfig EncoderDecoderConfig::preset(const std::string& name) {
  EncoderDecoderConfig c;
  auto sizes = [&](int64_t layers, int64_t d_model, int64_t d_ff, int64_t heads) {
    c.encoder_layers = c.decoder_layers = layers;
    c.d_model = d_model;
    c.d_ff = d_ff;
    c.heads = heads;
    return c;
  };
  if (name == "tiny") return sizes(3, 128, 512, 4);
  if (name == "small") return sizes(3, 256, 1024, 4);
  if (name == "base") return sizes(6, 512, 2048, 8);
  if (name == "big") {
    c.dropout = 0.3;
    return sizes(6, 1024, 4096, 16);
  }
  fail<ConfigError>("[encoder-decoder] no preset is called '{}': there are tiny, small, base and big", name);
}

EncoderDecoder::EncoderDecoder(const Config& config, std::unique_ptr<nn::Parameters> parameters)
    : config_(checked(config)),
      parameters_(std::move(parameters)),
      root_(*parameters_),
      target_table_(nn::TokenTable(root_ / (config_.tying == Tying::all ? "embedding" : "decoder.embedding"),
                                   config_.target_vocabulary, config_.d_model, 1 / std::sqrt(double(config_.d_model)))
                        .W),
      source_table_(config_.tying == Tying::all
                        ? target_table_
                        : nn::TokenTable(root_ / "encoder.embedding", config_.source_vocabulary, config_.d_model,
                                         1 / std::sqrt(double(config_.d_model)))
                              .W),
      output_table_(config_.tying != Tying::none
                        ? target_table_
                        : root_.parameter("output.weight", {config_.target_vocabulary, config_.d_model},
                                          nn::Init::xavier(config_.d_model, config_.target_vocabulary))),
      source_embedding_(source_table_,
                        nn::position_table(root_ / "encoder.positions", config_.position, config_.max_positions,
                                           config_.d_model, parameters_->dtype()),
                        config_.scale_embedding ? std::sqrt(double(config_.d_model)) : 1, float(config_.dropout)),
      target_embedding_(target_table_,
                        nn::position_table(root_ / "decoder.positions", config_.position, config_.max_positions,
                                           config_.d_model, parameters_->dtype()),
                        source_embedding_.scale, float(config_.dropout)),
      encoder_(root_ / "encoder", config_.encoder_layers, layer_shape(config_)),
      decoder_(root_ / "decoder", config_.decoder_layers, layer_shape(config_)) {
  parameters_->freeze_layout();
}

Tensor EncoderDecoder::encode(const Tensor& source, const Tensor& lengths, nn::Context& ctx) const {
  return encoder_(source_embedding_(source, ctx), {lengths, false}, ctx);
}

Tensor EncoderDecoder::decode(const Tensor& target, const Tensor& memory, const Tensor& source_lengths,
                              nn::Context& ctx) const {
  // Padding of the target stands behind what is read, where the causal mask hides it already.
  return decoder_(target_embedding_(target, ctx), memory, {{}, true}, {source_lengths, false}, ctx);
}

Tensor EncoderDecoder::logits(const Tensor& hidden) const { return linear(hidden, output_table_); }

Tensor EncoderDecoder::loss(const Tensor& source, const Tensor& source_lengths, const Tensor& target_in,
                            const Tensor& labels, const CrossEntropyOptions& options, nn::Context& ctx) const {
  const Tensor memory = encode(source, source_lengths, ctx);
  const Tensor hidden = decode(target_in, memory, source_lengths, ctx);
  return projected_cross_entropy(hidden, output_table_, {}, labels, options);
}

}  // namespace rapt::models
