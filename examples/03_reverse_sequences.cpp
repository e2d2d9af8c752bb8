// A training loop: an encoder-decoder learns to reverse sequences of letters, and its cross-attention shows how. When it
// writes the first letter it looks at the last one of the source: the weights lie on the anti-diagonal.
#include <rapt/rapt.hpp>

#include <cstdio>
#include <string>

using namespace rapt;

namespace {

constexpr int64_t kLength = 8, kLetters = 12, kBatch = 64;
constexpr int32_t kBegin = 0, kFirstLetter = 1;

struct Batch {
  Tensor source, target_in, labels;  // [B, T]
};

/// Random letters, and the same letters backwards.
Batch draw_batch(uint64_t step) {
  const Philox random{2026, step};
  std::vector<int32_t> source, target_in, labels;
  for (int64_t b = 0; b < kBatch; ++b) {
    std::vector<int32_t> word;
    for (int64_t t = 0; t < kLength; ++t)
      word.push_back(kFirstLetter + int32_t(random.below(uint64_t(b * kLength + t), kLetters)));
    source.insert(source.end(), word.begin(), word.end());
    labels.insert(labels.end(), word.rbegin(), word.rend());
    target_in.push_back(kBegin);
    target_in.insert(target_in.end(), word.rbegin(), word.rend() - 1);
  }
  const Shape shape{kBatch, kLength};
  return {Tensor::from(source, shape), Tensor::from(target_in, shape), Tensor::from(labels, shape)};
}

/// Shades of the average weights over layers and heads, one row a letter that is written.
Tensor average_cross_attention(const nn::Probe& probe) {
  Tensor average = Tensor::zeros({kLength, kLength});
  int maps = 0;
  for (const auto& record : probe.records) {
    if (record.where.find("cross") == std::string::npos) continue;
    for (int64_t head = 0; head < record.weights.size(1); ++head, ++maps)
      average = add(average, contiguous(record.weights.select(0, 0).select(0, head)));
  }
  return affine(average, 1.0 / maps);
}

void draw(const Tensor& weights, const std::string& columns, const std::string& rows) {
  const char* shades[] = {"  ", "\u2591\u2591", "\u2592\u2592", "\u2593\u2593", "\u2588\u2588"};
  std::printf("\n      ");
  for (char c : columns) std::printf("%c ", c);
  std::printf(" <- source\n");
  for (int64_t i = 0; i < kLength; ++i) {
    std::printf("   %c  ", rows[size_t(i)]);
    for (int64_t j = 0; j < kLength; ++j) std::printf("%s", shades[int(weights.at({i, j}) * 4.99)]);
    std::printf("\n");
  }
}

std::string letters(const Tensor& ids) {
  std::string text;
  for (double id : ids.to_vector()) text += char('a' + int(id) - kFirstLetter);
  return text;
}

}  // namespace

int main() {
  models::EncoderDecoderConfig config;
  config.source_vocabulary = config.target_vocabulary = kFirstLetter + kLetters;
  config.d_model = 64;
  config.d_ff = 128;
  config.heads = 2;
  config.encoder_layers = config.decoder_layers = 1;
  config.pre_norm = true;
  config.dropout = 0;
  config.max_positions = kLength;
  const models::EncoderDecoder model(config);
  train::Optimiser optimiser(model.parameters(), train::Adam{});
  const train::Schedule rate{.peak = 4e-3, .warmup = 50};

  nn::Context ctx{.training = true};
  for (int64_t step = 1; step <= 400; ++step) {
    const Batch batch = draw_batch(uint64_t(step));
    ctx.step = uint64_t(step);
    ctx.draws = 0;
    model.parameters().zero_grad();
    const Tensor loss = model.loss(batch.source, {}, batch.target_in, batch.labels, {}, ctx);
    backward(loss);
    optimiser.step(rate(step), 1.0);
    if (step % 100 == 0) std::printf("step %3ld  loss %.4f\n", step, loss.item());
  }

  NoGrad no_grad;
  const Batch test = draw_batch(1 << 20);
  nn::Probe probe;
  nn::Context look{.probe = &probe};
  const Tensor memory = model.encode(test.source, {}, look);
  const Tensor logits = model.logits(model.decode(test.target_in, memory, {}, look));
  Tensor hits;
  cross_entropy(logits, test.labels, {.hits = &hits});
  const double share = sum(hits.to(DType::f32)).item() / double(hits.numel());
  const std::string source = letters(test.source.select(0, 0)), reversed = letters(test.labels.select(0, 0));
  std::printf("unseen sequences: %.1f %% of the letters right;  %s -> %s\n", 100 * share, source.c_str(),
              reversed.c_str());
  const Tensor weights = average_cross_attention(probe);
  draw(weights, source, reversed);

  double on_diagonal = 0;
  for (int64_t i = 0; i < kLength; ++i) on_diagonal += weights.at({i, kLength - 1 - i}) / double(kLength);
  std::printf("\nweight on the anti-diagonal: %.2f (chance: %.2f)\n", on_diagonal, 1.0 / double(kLength));
  return share > 0.99 && on_diagonal > 0.5 ? 0 : 1;
}
