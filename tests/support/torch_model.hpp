#pragma once
// The tiny models of tests/data/models, with what PyTorch computed for them (tools/goldens/models.py).
#include <rapt/models/decoder_only.hpp>
#include <rapt/models/encoder_decoder.hpp>
#include <rapt/models/encoder_only.hpp>
#include <rapt/models/recurrent_seq2seq.hpp>
#include <rapt/models/safetensors.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <variant>

namespace rapt::testing {

inline const char* const kTorchModels[] = {"encoder_decoder_paper",
                                           "encoder_decoder_pre_norm",
                                           "encoder_decoder_rotary",
                                           "encoder_decoder_alibi",
                                           "encoder_masked_lm",
                                           "encoder_classifier",
                                           "encoder_tagger",
                                           "decoder_gpt2",
                                           "decoder_llama",
                                           "decoder_llama_interleaved",
                                           "recurrent_rnn_none",
                                           "recurrent_rnn_luong_dot",
                                           "recurrent_gru_bahdanau",
                                           "recurrent_gru_luong_dot",
                                           "recurrent_lstm_none",
                                           "recurrent_lstm_bahdanau",
                                           "recurrent_lstm_luong_general"};

inline std::string torch_model_folder() { return std::string(RAPT_TEST_DATA) + "/models"; }

/// One of the files, and our model of its config and weights.
class TorchModel {
 public:
  /// Weights in f64 when `dtype` is, else in f32; activations in `dtype`.
  TorchModel(const std::string& name, DType dtype)
      : file_(SafetensorsFile::open(torch_model_folder() + "/" + name + ".safetensors")),
        dtype_(dtype),
        model_(build()) {}

  const SafetensorsFile& file() const { return file_; }
  Tensor tensor(const std::string& name) const { return file_.tensor(name); }
  std::string text(const std::string& key) const { return file_.metadata().at(key); }
  /// Of the metadata; 0 when it is not there.
  double number(const std::string& key) const { return file_.metadata().contains(key) ? std::stod(text(key)) : 0; }

  nn::Parameters& parameters() const {
    return std::visit([](const auto& m) -> nn::Parameters& { return m.parameters(); }, model_);
  }
  Tensor logits() const {
    nn::Context ctx = context();
    return std::visit([&](const auto& m) { return logits_of(m, ctx); }, model_);
  }
  Tensor loss(bool recompute = false) const {
    nn::Context ctx = context();
    ctx.recompute = recompute;
    const CrossEntropyOptions options{.smoothing = number("smoothing"), .ignore = int32_t(number("ignore"))};
    return std::visit([&](const auto& m) { return loss_of(m, options, ctx); }, model_);
  }
  /// What the backward pass left for a parameter or a part of one.
  Tensor gradient(const nn::Parameters::Entry& entry) const {
    return parameters().grads().narrow(0, entry.tensor.offset(), entry.tensor.numel()).view(entry.tensor.shape());
  }

 private:
  using Model =
      std::variant<models::EncoderDecoder, models::EncoderOnly, models::DecoderOnly, models::RecurrentSeq2Seq>;

  template <class M>
  Model build_as() const {
    const auto source = [this](const std::string& name) {
      return file_.has("weight." + name) ? tensor("weight." + name) : Tensor{};
    };
    const DType weights = dtype_ == DType::f64 ? DType::f64 : DType::f32;
    return Model(std::in_place_type<M>, M::Config::from_json(text("config")),
                 std::make_unique<nn::Parameters>(source, weights));
  }
  Model build() const {
    const std::string family = text("family");
    if (family == "encoder-decoder") return build_as<models::EncoderDecoder>();
    if (family == "encoder") return build_as<models::EncoderOnly>();
    if (family == "decoder") return build_as<models::DecoderOnly>();
    if (family == "recurrent") return build_as<models::RecurrentSeq2Seq>();
    throw std::invalid_argument("no family is called " + family);
  }
  nn::Context context() const {
    nn::Context ctx;
    ctx.training = true;
    ctx.dtype = dtype_;
    return ctx;
  }

  Tensor encoded(const models::EncoderOnly& m, nn::Context& ctx) const {
    return m.encode(tensor("tokens"), file_.has("types") ? tensor("types") : Tensor{}, tensor("lengths"), ctx);
  }
  Tensor logits_of(const models::EncoderDecoder& m, nn::Context& ctx) const {
    const Tensor memory = m.encode(tensor("source"), tensor("source_lengths"), ctx);
    return m.logits(m.decode(tensor("target_in"), memory, tensor("source_lengths"), ctx));
  }
  Tensor logits_of(const models::RecurrentSeq2Seq& m, nn::Context& ctx) const {
    return m.logits(m.decode(tensor("target_in"), m.encode(tensor("source"), tensor("source_lengths"), ctx), ctx));
  }
  Tensor logits_of(const models::EncoderOnly& m, nn::Context& ctx) const { return m.logits(encoded(m, ctx), ctx); }
  Tensor logits_of(const models::DecoderOnly& m, nn::Context& ctx) const {
    return m.logits(m.decode(tensor("tokens"), tensor("lengths"), ctx));
  }

  template <class SequenceToSequence>
  Tensor loss_of(const SequenceToSequence& m, const CrossEntropyOptions& options, nn::Context& ctx) const {
    return m.loss(tensor("source"), tensor("source_lengths"), tensor("target_in"), tensor("labels"), options, ctx);
  }
  Tensor loss_of(const models::EncoderOnly& m, const CrossEntropyOptions& options, nn::Context& ctx) const {
    return m.loss(encoded(m, ctx), tensor("labels"), options, ctx);
  }
  Tensor loss_of(const models::DecoderOnly& m, const CrossEntropyOptions& options, nn::Context& ctx) const {
    return m.loss(tensor("tokens"), tensor("lengths"), tensor("labels"), options, ctx);
  }

  SafetensorsFile file_;
  DType dtype_;
  Model model_;
};

inline double largest(const Tensor& t) {
  double most = 0;
  for (const double x : t.to_vector()) most = std::max(most, std::abs(x));
  return most;
}

/// The largest |got - want|; infinite when the shapes differ or something is not a number.
inline double largest_difference(const Tensor& got, const Tensor& want) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!(got.shape() == want.shape())) return kInfinity;
  const std::vector<double> a = got.to_vector(), b = want.to_vector();
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    most = std::isnan(difference) ? kInfinity : std::max(most, difference);
  }
  return most;
}

}  // namespace rapt::testing
