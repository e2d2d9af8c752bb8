// Properties that whole models share, whatever their weights.
#include <rapt/autograd/tape.hpp>
#include <rapt/base/threads.hpp>
#include <rapt/models/decoder_only.hpp>
#include <rapt/models/encoder_decoder.hpp>
#include <rapt/models/encoder_only.hpp>
#include <rapt/models/recurrent_seq2seq.hpp>
#include <support/compare.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace rapt::models {
namespace {

using testing::relative_error;

constexpr int32_t kVocabulary = 13;
constexpr DType f64 = DType::f64;
using Sentences = std::vector<std::vector<int32_t>>;

const Sentences kSources{{3, 7, 1, 12, 5}, {4, 4}, {9, 2, 6, 8}}, kTargets{{1, 5, 6}, {1, 8, 7, 11, 2}, {1}};

struct Batch {
  Tensor ids, lengths;  // [B, T], [B]
};
Batch padded(const Sentences& sentences, int32_t filler = 0) {
  size_t longest = 0;
  std::vector<int32_t> ids, lengths;
  for (const auto& s : sentences) longest = std::max(longest, s.size());
  for (const auto& s : sentences) {
    ids.insert(ids.end(), s.begin(), s.end());
    ids.resize(ids.size() + longest - s.size(), filler);
    lengths.push_back(int32_t(s.size()));
  }
  const auto B = int64_t(sentences.size());
  return {Tensor::from(ids, {B, int64_t(longest)}), Tensor::from(lengths, {B})};
}

/// Row b of a batched result, without its padding, against the result for sentence b alone.
void expect_single_results(const Tensor& batched, const Sentences& sentences,
                           const std::function<Tensor(size_t)>& single) {
  for (size_t b = 0; b < sentences.size(); ++b) {
    const Tensor there = batched.select(0, int64_t(b)).narrow(0, 0, int64_t(sentences[b].size()));
    EXPECT_LT(relative_error(there, single(b).select(0, 0)), 1e-12) << "sentence " << b;
  }
}

nn::Context plain_context() { return {.dtype = f64}; }

EncoderDecoderConfig transformer_config(nn::Position position = nn::Position::sinusoidal) {
  EncoderDecoderConfig c = EncoderDecoderConfig::preset("tiny");
  c.source_vocabulary = c.target_vocabulary = kVocabulary;
  c.d_model = 16;
  c.d_ff = 24;
  c.heads = 2;
  c.encoder_layers = c.decoder_layers = 2;
  c.position = position;
  return c;
}
template <class Config>
Config small(Config c) {
  c.vocabulary = kVocabulary;
  c.d_model = 16;
  c.d_ff = 24;
  c.heads = 2;
  c.layers = 2;
  c.max_positions = 32;
  return c;
}
constexpr nn::Position kPositions[] = {nn::Position::none, nn::Position::sinusoidal, nn::Position::learned,
                                       nn::Position::rotary, nn::Position::alibi};

// ------------------------------------------------------------------------------------------------------------- padding

TEST(Padding, EncoderDecoder) {
  for (const nn::Position position : kPositions)
    for (const bool pre_norm : {false, true}) {
      EncoderDecoderConfig config = transformer_config(position);
      config.pre_norm = pre_norm;
      const EncoderDecoder model(config, 7, f64);
      const auto run = [&](const Sentences& sources, const Sentences& targets) {
        nn::Context ctx = plain_context();
        const Batch s = padded(sources);
        return model.decode(padded(targets).ids, model.encode(s.ids, s.lengths, ctx), s.lengths, ctx);
      };
      expect_single_results(run(kSources, kTargets), kTargets,
                            [&](size_t b) { return run({kSources[b]}, {kTargets[b]}); });
    }
}

TEST(Padding, EncoderOnly) {
  EncoderOnlyConfig config = small(EncoderOnlyConfig{});
  config.head = Head::tagger;
  const EncoderOnly model(config, 7, f64);
  const auto run = [&](const Sentences& sentences) {
    nn::Context ctx = plain_context();
    const Batch x = padded(sentences);
    return model.logits(model.encode(x.ids, {}, x.lengths, ctx), ctx);
  };
  expect_single_results(run(kSources), kSources, [&](size_t b) { return run({kSources[b]}); });
}

TEST(Padding, DecoderOnly) {
  for (const bool llama : {false, true}) {
    DecoderOnlyConfig config = small(llama ? DecoderOnlyConfig::llama_shape() : DecoderOnlyConfig{});
    if (llama) config.key_heads = 1;
    const DecoderOnly model(config, 7, f64);
    const auto run = [&](const Sentences& sentences) {
      nn::Context ctx = plain_context();
      const Batch x = padded(sentences);
      return model.logits(model.decode(x.ids, x.lengths, ctx));
    };
    expect_single_results(run(kSources), kSources, [&](size_t b) { return run({kSources[b]}); });
  }
}

TEST(Padding, RecurrentSeq2Seq) {
  for (const Cell cell : {Cell::rnn, Cell::lstm, Cell::gru})
    for (const bool bidirectional : {false, true})
      for (const auto attention : {RecurrentAttention::none, RecurrentAttention::bahdanau,
                                   RecurrentAttention::luong_dot, RecurrentAttention::luong_general}) {
        RecurrentSeq2SeqConfig config;
        config.source_vocabulary = config.target_vocabulary = kVocabulary;
        config.d_embedding = 6;
        config.d_hidden = 8;
        config.layers = 2;
        config.cell = cell;
        config.bidirectional = bidirectional;
        config.attention = attention;
        const RecurrentSeq2Seq model(config, 7, f64);
        const auto run = [&](const Sentences& sources, const Sentences& targets) {
          nn::Context ctx = plain_context();
          const Batch s = padded(sources);
          return model.logits(model.decode(padded(targets).ids, model.encode(s.ids, s.lengths, ctx), ctx));
        };
        SCOPED_TRACE("cell " + std::to_string(int(cell)) + ", attention " + std::to_string(int(attention)));
        expect_single_results(run(kSources, kTargets), kTargets,
                              [&](size_t b) { return run({kSources[b]}, {kTargets[b]}); });
      }
}

TEST(Padding, TheGradientOfABatchIsTheSumOverItsSentences) {
  const EncoderDecoder model(transformer_config(), 7, f64);
  const auto accumulate = [&](const Sentences& sources, const Sentences& targets) {
    nn::Context ctx = plain_context();
    CrossEntropyOptions options;
    options.ignore = 0;
    options.normaliser = 9;
    options.smoothing = 0.1;
    const Batch s = padded(sources), t = padded(targets);
    const Tensor loss = model.loss(s.ids, s.lengths, t.ids, t.ids, options, ctx);
    backward(loss);
    return loss.item();
  };
  const double batched = accumulate(kSources, kTargets);
  const Tensor batched_grads = affine(model.parameters().grads(), 1);
  model.parameters().zero_grad();
  double singles = 0;
  for (size_t b = 0; b < kSources.size(); ++b) singles += accumulate({kSources[b]}, {kTargets[b]});
  EXPECT_NEAR(singles, batched, 1e-12 * batched);
  EXPECT_LT(relative_error(model.parameters().grads(), batched_grads), 1e-12);
}

// -------------------------------------------------------------------------------------------------------- the future

TEST(Causality, ADecoderDoesNotSeeLaterTokens) {
  for (const nn::Position position : kPositions) {
    DecoderOnlyConfig config = small(DecoderOnlyConfig{});
    config.position = position;
    const DecoderOnly decoder(config, 7);
    const EncoderDecoder transformer(transformer_config(position), 7);
    const std::vector<int32_t> tokens{3, 7, 1, 12, 5, 2};
    const Tensor source = Tensor::from(tokens, {1, 6});
    const auto outputs = [&](const Tensor& ids) {
      nn::Context ctx;
      return std::pair(decoder.decode(ids, {}, ctx),
                       transformer.decode(ids, transformer.encode(source, {}, ctx), {}, ctx));
    };
    const auto before = outputs(Tensor::from(tokens, {1, 6}));
    for (int64_t i = 0; i < 5; ++i) {
      std::vector<int32_t> changed = tokens;
      for (size_t j = size_t(i) + 1; j < 6; ++j) changed[j] = (changed[j] + 4) % kVocabulary;
      const auto after = outputs(Tensor::from(changed, {1, 6}));
      const auto up_to_i = [i](const Tensor& y) { return y.narrow(1, 0, i + 1).to_vector(); };
      EXPECT_EQ(up_to_i(before.first), up_to_i(after.first)) << "position " << i;
      EXPECT_EQ(up_to_i(before.second), up_to_i(after.second)) << "position " << i;
      EXPECT_NE(before.first.select(1, i + 1).to_vector(), after.first.select(1, i + 1).to_vector());
    }
  }
}

TEST(Causality, AnEncoderDoes) {
  const EncoderOnly model(small(EncoderOnlyConfig{}), 7);
  const auto first = [&](int32_t last_token) {
    nn::Context ctx;
    return model.encode(Tensor::from(std::vector<int32_t>{3, 7, last_token}, {1, 3}), {}, {}, ctx)
        .select(1, 0)
        .to_vector();
  };
  EXPECT_NE(first(1), first(2));
}

// -------------------------------------------------------------------------------------------------------------- order

TEST(Order, OnlyPositionsTellAModelTheOrderOfItsInput) {
  for (const nn::Position position : kPositions) {
    EncoderOnlyConfig config = small(EncoderOnlyConfig{});
    config.position = position;
    config.max_positions = 8;
    const EncoderOnly model(config, 7, f64);
    const auto first = [&](const std::vector<int32_t>& tokens) {
      nn::Context ctx = plain_context();
      return model.encode(Tensor::from(tokens, {1, 4}), {}, {}, ctx).select(1, 0);
    };
    const double change = relative_error(first({3, 9, 7, 5}), first({3, 5, 9, 7}));
    if (position == nn::Position::none) {
      EXPECT_LT(change, 1e-12);
    } else {
      EXPECT_GT(change, 1e-5) << "position " << int(position);
    }
  }
}

// -------------------------------------------------------------------------------------------------------------- tying

TEST(Tying, OneTableHasOneEntryAndTheSumOfAllGradients) {
  EncoderDecoderConfig config = transformer_config();
  config.tying = Tying::all;
  const EncoderDecoder tied(config, 7, f64);
  config.tying = Tying::none;
  const EncoderDecoder untied(config, 8, f64);
  const std::set<std::string> tables{"encoder.embedding.weight", "decoder.embedding.weight", "output.weight"};
  size_t copies = 0;
  for (const auto& entry : untied.parameters().entries()) {
    const bool table = tables.count(entry.name) > 0;
    copies += table;
    entry.tensor.copy_from(tied.parameters().find(table ? "embedding.weight" : entry.name));
  }
  EXPECT_EQ(copies, 3u);
  EXPECT_EQ(tied.parameters().entries().size() + 2, untied.parameters().entries().size());
  EXPECT_EQ(tied.parameters().count() + 2 * kVocabulary * 16, untied.parameters().count());

  const Batch s = padded(kSources), t = padded(kTargets);
  for (const EncoderDecoder* model : {&tied, &untied}) {
    nn::Context ctx = plain_context();
    backward(model->loss(s.ids, s.lengths, t.ids, t.ids, {}, ctx));
  }
  Tensor total = Tensor::zeros({kVocabulary, 16}, f64);
  for (const std::string& name : tables) total = add(total, grad(untied.parameters().find(name)));
  EXPECT_LT(relative_error(grad(tied.parameters().find("embedding.weight")), total), 1e-13);
}

TEST(Tying, TheDecoderAlone) {
  EncoderDecoderConfig config = transformer_config();
  config.tying = Tying::decoder;
  config.source_vocabulary = 20;
  const EncoderDecoder model(config, 7, f64);
  EXPECT_EQ(model.parameters().find("encoder.embedding.weight").shape(), (Shape{20, 16}));
  EXPECT_EQ(model.parameters().find("decoder.embedding.weight").shape(), (Shape{kVocabulary, 16}));
  EXPECT_ANY_THROW(model.parameters().find("output.weight"));
}

// -------------------------------------------------------------------------------------------------------------- probes

TEST(Probes, EveryAttentionOfAModelIsSeenAndNothingChanges) {
  const EncoderDecoder model(transformer_config(), 7);
  const Batch s = padded(kSources), t = padded(kTargets);
  const auto run = [&](nn::Probe* probe) {
    nn::Context ctx;
    ctx.probe = probe;
    return model.decode(t.ids, model.encode(s.ids, s.lengths, ctx), s.lengths, ctx).to_vector();
  };
  nn::Probe probe;
  EXPECT_EQ(run(&probe), run(nullptr));
  std::vector<std::string> seen;
  for (const auto& record : probe.records) {
    seen.push_back(record.where);
    for (const double total : sum(record.weights, -1).to_vector()) EXPECT_NEAR(total, 1, 1e-5);
  }
  const std::vector<std::string> wanted{"encoder.0.self",  "encoder.1.self", "decoder.0.self",
                                        "decoder.0.cross", "decoder.1.self", "decoder.1.cross"};
  EXPECT_EQ(seen, wanted);
}

// -------------------------------------------------------------------------------------------------------------- threads

TEST(Threads, TheirNumberChangesNoBit) {
  EncoderDecoderConfig config = transformer_config();
  config.d_model = 64;
  config.d_ff = 128;
  const int before = thread_count();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    std::vector<std::vector<double>> results;
    for (const int threads : {1, 2, 5}) {
      set_thread_count(threads);
      const EncoderDecoder model(config, 7);
      Sentences sentences(6, std::vector<int32_t>(70, 4));
      for (size_t b = 0; b < 6; ++b)
        for (size_t t = 0; t < 70; ++t) sentences[b][t] = int32_t((5 * b + 3 * t * t) % kVocabulary);
      const Batch x = padded(sentences);
      nn::Context ctx{.training = true, .dtype = dtype, .seed = 3};
      const Tensor loss = model.loss(x.ids, x.lengths, x.ids, x.ids, {}, ctx);
      backward(loss);
      results.push_back(model.parameters().grads().to_vector());
      results.back().push_back(loss.item());
    }
    EXPECT_EQ(results[0], results[1]) << to_string(dtype);
    EXPECT_EQ(results[0], results[2]) << to_string(dtype);
  }
  set_thread_count(before);
}

}  // namespace
}  // namespace rapt::models
