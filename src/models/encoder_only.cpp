#include <base/fail.hpp>
#include <models/config_names.hpp>
#include <rapt/models/encoder_only.hpp>

namespace rapt::models {
namespace {

constexpr EnumName<Head> kHeadNames[] = {
    {"none", Head::none}, {"masked_lm", Head::masked_lm}, {"classifier", Head::classifier}, {"tagger", Head::tagger}};
constexpr double kDeviation = 0.02;  // of all matrices, as BERT draws them

nn::LayerShape layer_shape(const EncoderOnlyConfig& c) {
  nn::LayerShape s;
  s.attention.d_model = c.d_model;
  s.attention.h = c.heads;
  s.attention.p = float(c.attention_dropout);
  s.attention.position = c.position;
  s.attention.linear.deviation = kDeviation;
  s.d_ff = c.d_ff;
  s.act = c.activation;
  s.norm = {c.norm, c.norm_eps};
  s.pre_norm = c.pre_norm;
  s.p = float(c.dropout);
  return s;
}

}  // namespace

template <class Archive>
void describe(Archive& a, EncoderOnlyConfig& c) {
  a.constant("model_type", "rapt-encoder");
  a.required("vocabulary", c.vocabulary, size_range());
  a.required("d_model", c.d_model, size_range());
  a.required("d_ff", c.d_ff, size_range());
  a.required("layers", c.layers, layer_range());
  a.required("heads", c.heads, size_range());
  a("max_positions", c.max_positions, size_range());
  a("token_types", c.token_types, between<int64_t>(0, kLargestSize));
  a("dropout", c.dropout, rate_range());
  a("attention_dropout", c.attention_dropout, rate_range());
  a("activation", c.activation, kActivationNames);
  a("norm", c.norm, kNormNames);
  a("norm_eps", c.norm_eps, above(0.0));
  a("pre_norm", c.pre_norm);
  a("position", c.position, kPositionNames);
  a("head", c.head, kHeadNames);
  a("labels", c.labels, size_range());
  a("pad_id", c.pad_id, between<int64_t>(0, kLargestSize));
}

EncoderOnlyConfig EncoderOnlyConfig::from_json(const std::string& text, const std::string& label) {
  return checked(read_config<EncoderOnlyConfig>(text, label));
}

std::string EncoderOnlyConfig::to_json() const { return write_config(*this); }

void EncoderOnlyConfig::check() const {
  require<ConfigError>(
      vocabulary > 0 && layers > 0 && d_ff > 0 && max_positions > 0 && labels > 0,
      "[encoder] vocabulary {}, {} layers, d_ff {}, max_positions {}, {} labels: all must be at least 1", vocabulary,
      layers, d_ff, max_positions, labels);
  require_rate("encoder", "dropout", dropout);
  require_rate("encoder", "attention_dropout", attention_dropout);
  require_eps("encoder", norm_eps);
  layer_shape(*this).attention.resolved();
  require_ids({{"pad_id", pad_id}}, vocabulary);
}

EncoderOnly::EncoderOnly(const Config& config, std::unique_ptr<nn::Parameters> parameters)
    : config_(checked(config)),
      parameters_(std::move(parameters)),
      root_(*parameters_),
      table_(nn::TokenTable(root_ / "embedding" / "tokens", config_.vocabulary, config_.d_model, kDeviation).W),
      types_(config_.token_types > 0
                 ? nn::TokenTable(root_ / "embedding" / "types", config_.token_types, config_.d_model, kDeviation).W
                 : Tensor{}),
      embedding_(table_,
                 nn::position_table(root_ / "embedding" / "positions", config_.position, config_.max_positions,
                                    config_.d_model, parameters_->dtype()),
                 1, 0),
      embedding_norm_(root_ / "embedding" / "norm", config_.d_model, {config_.norm, config_.norm_eps}),
      encoder_(root_ / "encoder", config_.layers, layer_shape(config_)) {
  const int64_t d = config_.d_model;
  const nn::Linear::Options drawn{.bias = true, .deviation = kDeviation};
  switch (config_.head) {
    case Head::none: break;
    case Head::masked_lm:
      transform_.emplace(root_ / "head" / "transform", d, d, drawn);
      transform_norm_.emplace(root_ / "head" / "norm", d, NormOptions{config_.norm, config_.norm_eps});
      output_bias_ = root_.parameter("head.bias", {config_.vocabulary}, nn::Init::zeros());
      break;
    case Head::classifier:
      transform_.emplace(root_ / "head" / "pooler", d, d, drawn);
      output_.emplace(root_ / "head" / "output", d, config_.labels, drawn);
      break;
    case Head::tagger: output_.emplace(root_ / "head" / "output", d, config_.labels, drawn); break;
  }
  parameters_->freeze_layout();
}

Tensor EncoderOnly::encode(const Tensor& tokens, const Tensor& types, const Tensor& lengths, nn::Context& ctx) const {
  Tensor x = embedding_(tokens, ctx);  // [B, T, d]
  require<ConfigError>(types_ || !types, "[encoder] token types are given, and this model has none (token_types 0)");
  require<ShapeError>(!types || types.shape() == tokens.shape(),
                      "[encoder] types {} for tokens {}: equal shapes are needed",
                      types ? to_string(types.shape()) : "", to_string(tokens.shape()));
  if (types_) {
    const Tensor ids = types ? types : Tensor::zeros(tokens.shape(), DType::i32);
    x = add(x, embedding(ids, types_, {.dtype = ctx.dtype}));
  }
  x = dropout(embedding_norm_(x), ctx.dropout(float(config_.dropout)), ctx.next_random());
  return encoder_(x, {lengths, false}, ctx);
}

Tensor EncoderOnly::features(const Tensor& x, nn::Context& ctx) const {
  switch (config_.head) {
    case Head::masked_lm: return (*transform_norm_)((*transform_)(x, config_.activation));  // [B, T, d]
    case Head::classifier: {
      const Tensor pooled = (*transform_)(x.select(1, 0), Activation::tanh);  // [B, d]
      return dropout(pooled, ctx.dropout(float(config_.dropout)), ctx.next_random());
    }
    case Head::tagger: return dropout(x, ctx.dropout(float(config_.dropout)), ctx.next_random());
    case Head::none: break;
  }
  fail<ConfigError>("[encoder] this model has no head: it encodes, it does not answer");
}

Tensor EncoderOnly::output_weight() const { return output_ ? output_->W : table_; }

Tensor EncoderOnly::logits(const Tensor& x, nn::Context& ctx) const {
  return linear(features(x, ctx), output_weight(), output_ ? output_->b : output_bias_);
}

Tensor EncoderOnly::loss(const Tensor& x, const Tensor& labels, const CrossEntropyOptions& options,
                         nn::Context& ctx) const {
  return projected_cross_entropy(features(x, ctx), output_weight(), output_ ? output_->b : output_bias_, labels,
                                 options);
}

}  // namespace rapt::models
