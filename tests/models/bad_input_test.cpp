// What a user may give a model by mistake: a typed exception with the numbers, never a crash.
#include <rapt/autograd/tape.hpp>
#include <rapt/models/decoder_only.hpp>
#include <rapt/models/encoder_decoder.hpp>
#include <rapt/models/encoder_only.hpp>
#include <rapt/models/recurrent_seq2seq.hpp>
#include <support/expect_error.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace rapt::models {
namespace {

using testing::expect_error;

EncoderDecoderConfig transformer_config() {
  EncoderDecoderConfig c;
  c.source_vocabulary = c.target_vocabulary = 13;
  c.d_model = 16;
  c.d_ff = 24;
  c.heads = 2;
  c.encoder_layers = c.decoder_layers = 1;
  c.max_positions = 8;
  return c;
}
template <class Config>
Config small_config() {
  Config c;
  c.vocabulary = 13;
  c.d_model = 16;
  c.d_ff = 24;
  c.heads = 2;
  c.layers = 1;
  c.max_positions = 8;
  return c;
}
RecurrentSeq2SeqConfig recurrent_config(RecurrentAttention attention = RecurrentAttention::bahdanau) {
  RecurrentSeq2SeqConfig c;
  c.source_vocabulary = c.target_vocabulary = 13;
  c.d_embedding = 6;
  c.d_hidden = 8;
  c.attention = attention;
  return c;
}

Tensor tokens(const Shape& shape, int32_t id = 3) {
  return Tensor::from(std::vector<int32_t>(size_t(shape.numel()), id), shape);
}
Tensor lengths(const std::vector<int32_t>& values) { return Tensor::from(values, {int64_t(values.size())}); }

/// Every family reads one batch of tokens (source and target alike, where there are two sides).
struct Family {
  const char* name;
  std::function<void(const Tensor& tokens, const Tensor& lengths, nn::Context& ctx)> read;
};
const std::vector<Family>& families() {
  static const EncoderDecoder transformer(transformer_config());
  static const EncoderOnly encoder(small_config<EncoderOnlyConfig>());
  static const DecoderOnly decoder(small_config<DecoderOnlyConfig>());
  static const RecurrentSeq2Seq bahdanau(recurrent_config()), luong(recurrent_config(RecurrentAttention::luong_dot)),
      plain(recurrent_config(RecurrentAttention::none));
  const auto recurrent = [](const RecurrentSeq2Seq& model) {
    return [&model](const Tensor& ids, const Tensor& length, nn::Context& ctx) {
      model.decode(ids, model.encode(ids, length, ctx), ctx);
    };
  };
  static const std::vector<Family> list{
      {"encoder-decoder",
       [](const Tensor& ids, const Tensor& length, nn::Context& ctx) {
         transformer.decode(ids, transformer.encode(ids, length, ctx), length, ctx);
       }},
      {"encoder-only",
       [](const Tensor& ids, const Tensor& length, nn::Context& ctx) { encoder.encode(ids, {}, length, ctx); }},
      {"decoder-only",
       [](const Tensor& ids, const Tensor& length, nn::Context& ctx) { decoder.decode(ids, length, ctx); }},
      {"recurrent, Bahdanau", recurrent(bahdanau)},
      {"recurrent, Luong", recurrent(luong)},
      {"recurrent, no attention", recurrent(plain)}};
  return list;
}

template <class E>
void all_refuse(const std::string& part, const Tensor& ids, const Tensor& length = {}, DType dtype = DType::f32) {
  for (const Family& family : families()) {
    SCOPED_TRACE(family.name);
    nn::Context ctx{.dtype = dtype};
    expect_error<E>(part, [&] { family.read(ids, length, ctx); });
  }
}

TEST(BadModelInput, EmptyBatchesAndSequences) {
  all_refuse<ShapeError>("tokens [0, 5]", tokens({0, 5}));
  all_refuse<ShapeError>("tokens [2, 0]", tokens({2, 0}));
  all_refuse<ShapeError>("tokens [0, 0]", tokens({0, 0}));
}

TEST(BadModelInput, TokensOfAnotherShapeOrType) {
  all_refuse<ShapeError>("tokens [5]", tokens({5}));
  all_refuse<ShapeError>("tokens [1, 2, 3]", tokens({1, 2, 3}));
  all_refuse<ShapeError>("tokens []", tokens(Shape{}));
  all_refuse<DTypeError>("tokens are f32; i32 is needed", Tensor::zeros({2, 3}));
  all_refuse<DTypeError>("tokens are i64; i32 is needed", Tensor::zeros({2, 3}, DType::i64));
  all_refuse<DTypeError>("tokens are undefined", {});
}

TEST(BadModelInput, TokensOutsideTheVocabulary) {
  all_refuse<IndexError>("id 13 at position 0 is outside [0, 13)", tokens({2, 3}, 13));
  all_refuse<IndexError>("id -1 at position 0 is outside [0, 13)", tokens({2, 3}, -1));
  all_refuse<IndexError>("id 2147483647", tokens({2, 3}, INT32_MAX));
}

TEST(BadModelInput, Lengths) {
  all_refuse<ShapeError>("lengths has shape [3]; [2] is needed", tokens({2, 3}), lengths({1, 2, 3}));
  all_refuse<IndexError>("length -1 of sequence 1", tokens({2, 3}), lengths({3, -1}));
  all_refuse<IndexError>("length 4 of sequence 0 is outside [0, 3]", tokens({2, 3}), lengths({4, 1}));
  all_refuse<DTypeError>("lengths is f32; i32 is needed", tokens({2, 3}), Tensor::zeros({2}));
}

TEST(BadModelInput, LengthsOfZeroAreFineInsideABatch) {
  for (const Family& family : families()) {
    nn::Context ctx;
    EXPECT_NO_THROW(family.read(tokens({2, 3}), lengths({0, 3}), ctx)) << family.name;
  }
}

TEST(BadModelInput, ActivationsThatDoNotFitTheWeights) {
  all_refuse<DTypeError>("W is f32; f64 is needed", tokens({2, 3}), {}, DType::f64);
  all_refuse<DTypeError>("to i32: f64, f32 or bf16 is needed", tokens({2, 3}), {}, DType::i32);
  all_refuse<DTypeError>("to f16: f64, f32 or bf16 is needed", tokens({2, 3}), {}, DType::f16);
}

TEST(BadModelInput, SequencesLongerThanTheTableOfPositions) {
  for (const nn::Position position : {nn::Position::sinusoidal, nn::Position::learned}) {
    DecoderOnlyConfig config = small_config<DecoderOnlyConfig>();
    config.position = position;
    const DecoderOnly model(config);
    nn::Context ctx;
    EXPECT_NO_THROW(model.decode(tokens({1, 8}), {}, ctx));
    expect_error<IndexError>("9 positions from 0 on are asked for, the table has 8", [&] {
      model.decode(tokens({1, 9}), {}, ctx);
    });
  }
  const EncoderDecoder transformer(transformer_config());
  nn::Context ctx;
  expect_error<IndexError>("9 positions from 0 on", [&] { transformer.encode(tokens({1, 9}), {}, ctx); });
}

TEST(BadModelInput, MemoriesThatDoNotFit) {
  const EncoderDecoder model(transformer_config());
  nn::Context ctx;
  const Tensor target = tokens({2, 3});
  expect_error<ShapeError>("[3, 4, 2, 8]", [&] { model.decode(target, Tensor::zeros({3, 4, 16}), {}, ctx); });
  expect_error<ShapeError>("inner dimensions differ: x [2, 4, 12]", [&] {
    model.decode(target, Tensor::zeros({2, 4, 12}), {}, ctx);
  });
  expect_error<DTypeError>("f64", [&] { model.decode(target, Tensor::zeros({2, 4, 16}, DType::f64), {}, ctx); });
  EXPECT_THROW(model.decode(target, {}, {}, ctx), Error);
  expect_error<IndexError>("length 5 of sequence 0 is outside [0, 4]", [&] {
    model.decode(target, Tensor::zeros({2, 4, 16}), lengths({5, 1}), ctx);
  });
  const RecurrentSeq2Seq recurrent(recurrent_config());
  EXPECT_THROW(recurrent.decode(target, {}, ctx), Error);
  EXPECT_THROW(recurrent.decode(tokens({3, 2}), recurrent.encode(target, {}, ctx), ctx), ShapeError);
}

TEST(BadModelInput, Labels) {
  const EncoderDecoder model(transformer_config());
  nn::Context ctx;
  const Tensor source = tokens({2, 3});
  expect_error<ShapeError>("targets has shape [2, 4]; [2, 3] is needed", [&] {
    model.loss(source, {}, source, tokens({2, 4}), {}, ctx);
  });
  expect_error<IndexError>("target 13 in row 0 is outside [0, 13)", [&] {
    model.loss(source, {}, source, tokens({2, 3}, 13), {}, ctx);
  });
  expect_error<DTypeError>("targets is undefined", [&] { model.loss(source, {}, source, {}, {}, ctx); });
}

TEST(BadModelInput, TokenTypes) {
  EncoderOnlyConfig config = small_config<EncoderOnlyConfig>();
  const EncoderOnly typed(config);
  nn::Context ctx;
  expect_error<ShapeError>("types [1, 3] for tokens [2, 3]", [&] {
    typed.encode(tokens({2, 3}), tokens({1, 3}, 0), {}, ctx);
  });
  expect_error<IndexError>("id 2 at position 0 is outside [0, 2)", [&] {
    typed.encode(tokens({2, 3}), tokens({2, 3}, 2), {}, ctx);
  });
  config.token_types = 0;
  const EncoderOnly untyped(config);
  expect_error<ConfigError>("token_types 0", [&] { untyped.encode(tokens({2, 3}), tokens({2, 3}, 0), {}, ctx); });
  expect_error<ConfigError>("has no head", [&] { typed.logits(typed.encode(tokens({2, 3}), {}, {}, ctx), ctx); });
}

// ------------------------------------------------------------------------------------------------------------- configs

template <class Model, class Change>
void expect_refused(typename Model::Config config, const std::string& part, Change change) {
  change(config);
  expect_error<ConfigError>(part, [&] { Model model(config); });
}

TEST(BadConfig, SizesThatDoNotFit) {
  const auto transformer = transformer_config();
  expect_refused<EncoderDecoder>(transformer, "d_model 16 is not a multiple of 3 heads", [](auto& c) { c.heads = 3; });
  expect_refused<EncoderDecoder>(transformer, "2 query heads cannot share 3 key heads",
                                 [](auto& c) { c.key_heads = 3; });
  expect_refused<EncoderDecoder>(transformer, "key heads evenly", [](auto& c) { c.key_heads = -1; });
  expect_refused<EncoderDecoder>(transformer, "d_model 0 and 2 heads", [](auto& c) { c.d_model = 0; });
  expect_refused<EncoderDecoder>(transformer, "d_model -16", [](auto& c) { c.d_model = -16; });
  expect_refused<EncoderDecoder>(transformer, "0 heads", [](auto& c) { c.heads = 0; });
  expect_refused<EncoderDecoder>(transformer, "0+1 layers", [](auto& c) { c.encoder_layers = 0; });
  expect_refused<EncoderDecoder>(transformer, "d_ff -1", [](auto& c) { c.d_ff = -1; });
  expect_refused<EncoderDecoder>(transformer, "max_positions 0", [](auto& c) { c.max_positions = 0; });
  expect_refused<EncoderDecoder>(transformer, "vocabularies of 0 and 13", [](auto& c) { c.source_vocabulary = 0; });
  expect_refused<EncoderDecoder>(transformer, "the source has 20 tokens and the target 13",
                                 [](auto& c) { c.source_vocabulary = 20; });
  expect_refused<EncoderDecoder>(transformer, "d_k 5 must be even", [](auto& c) {
    c.d_model = 10;
    c.position = nn::Position::rotary;
  });
  expect_error<ConfigError>("no preset is called 'huge'", [] { EncoderDecoderConfig::preset("huge"); });
  expect_refused<DecoderOnly>(small_config<DecoderOnlyConfig>(), "vocabulary 0", [](auto& c) { c.vocabulary = 0; });
  expect_refused<DecoderOnly>(small_config<DecoderOnlyConfig>(), "0 layers", [](auto& c) { c.layers = 0; });
  expect_refused<EncoderOnly>(small_config<EncoderOnlyConfig>(), "0 labels", [](auto& c) { c.labels = 0; });
  expect_refused<EncoderOnly>(small_config<EncoderOnlyConfig>(), "is not a multiple of 5 heads",
                              [](auto& c) { c.heads = 5; });
  expect_refused<RecurrentSeq2Seq>(recurrent_config(), "d_hidden 0", [](auto& c) { c.d_hidden = 0; });
  expect_refused<RecurrentSeq2Seq>(recurrent_config(), "-1 layers", [](auto& c) { c.layers = -1; });
}

TEST(BadConfig, Rates) {
  for (const double rate : {-0.1, 1.0, 7.0, std::nan("")}) {
    const std::string text = "is outside [0, 1)";
    const auto dropout = [rate](auto& c) { c.dropout = rate; };
    const auto attention = [rate](auto& c) { c.attention_dropout = rate; };
    expect_refused<EncoderDecoder>(transformer_config(), text, dropout);
    expect_refused<EncoderDecoder>(transformer_config(), text, attention);
    expect_refused<EncoderDecoder>(transformer_config(), text, [rate](auto& c) { c.activation_dropout = rate; });
    expect_refused<EncoderOnly>(small_config<EncoderOnlyConfig>(), text, dropout);
    expect_refused<EncoderOnly>(small_config<EncoderOnlyConfig>(), text, attention);
    expect_refused<DecoderOnly>(small_config<DecoderOnlyConfig>(), text, dropout);
    expect_refused<DecoderOnly>(small_config<DecoderOnlyConfig>(), text, attention);
    expect_refused<RecurrentSeq2Seq>(recurrent_config(), text, dropout);
  }
  for (const double eps : {0.0, -1.0, std::nan("")}) {
    const auto change = [eps](auto& c) { c.norm_eps = eps; };
    expect_refused<EncoderDecoder>(transformer_config(), "must be above 0", change);
    expect_refused<EncoderOnly>(small_config<EncoderOnlyConfig>(), "must be above 0", change);
    expect_refused<DecoderOnly>(small_config<DecoderOnlyConfig>(), "must be above 0", change);
  }
}

// ---------------------------------------------------------------------------------------------------------- parameters

TEST(BadParameters, NamesAndSources) {
  nn::Parameters parameters;
  const nn::Scope scope(parameters, "layer");
  scope.parameter("weight", {2, 3}, nn::Init::zeros());
  expect_error<Error>("two layers claim the name 'layer.weight'", [&] {
    scope.parameter("weight", {2, 3}, nn::Init::zeros());
  });
  expect_error<ConfigError>("'layer.gone' would have shape [2, 0]", [&] {
    scope.parameter("gone", {2, 0}, nn::Init::zeros());
  });
  parameters.freeze_layout();
  expect_error<IndexError>("there is no parameter 'layer.bias'", [&] { parameters.find("layer.bias"); });
  expect_error<Error>("after the layout was frozen", [&] { scope.parameter("late", {2}, nn::Init::zeros()); });
}

TEST(BadParameters, WeightsThatAreMissingOrHaveAnotherShape) {
  const auto source = [](const std::string& name) -> Tensor {
    if (name == "embedding.tokens.weight") return Tensor::zeros({12, 16});
    if (name == "embedding.positions.weight") return Tensor::zeros({8, 16}, DType::i32);
    return {};
  };
  for (const char* part : {"'embedding.tokens.weight' has shape [12, 16], the model needs [13, 16]",
                           "'embedding.positions.weight' holds i32", "'blocks.0.self.q.weight' [16, 16] is missing"})
    expect_error<FileError>(part, [&] {
      DecoderOnly model(small_config<DecoderOnlyConfig>(), std::make_unique<nn::Parameters>(source, DType::f32));
    });
}

}  // namespace
}  // namespace rapt::models
