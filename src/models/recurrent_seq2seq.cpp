#include <base/fail.hpp>
#include <models/config_names.hpp>
#include <rapt/models/recurrent_seq2seq.hpp>

namespace rapt::models {
namespace {

constexpr EnumName<Cell> kCellNames[] = {{"rnn", Cell::rnn}, {"lstm", Cell::lstm}, {"gru", Cell::gru}};
constexpr EnumName<RecurrentAttention> kAttentionNames[] = {{"none", RecurrentAttention::none},
                                                            {"bahdanau", RecurrentAttention::bahdanau},
                                                            {"luong_dot", RecurrentAttention::luong_dot},
                                                            {"luong_general", RecurrentAttention::luong_general}};

}  // namespace

template <class Archive>
void describe(Archive& a, RecurrentSeq2SeqConfig& c) {
  a.constant("model_type", "rapt-recurrent");
  a.required("source_vocabulary", c.source_vocabulary, size_range());
  a.required("target_vocabulary", c.target_vocabulary, size_range());
  a.required("d_embedding", c.d_embedding, size_range());
  a.required("d_hidden", c.d_hidden, size_range());
  a("d_attention", c.d_attention, between<int64_t>(0, kLargestSize));
  a("layers", c.layers, layer_range());
  a("cell", c.cell, kCellNames);
  a("bidirectional", c.bidirectional);
  a("attention", c.attention, kAttentionNames);
  a("dropout", c.dropout, rate_range());
  a("pad_id", c.pad_id, between<int64_t>(0, kLargestSize));
  a("bos_id", c.bos_id, between<int64_t>(0, kLargestSize));
  a("eos_id", c.eos_id, between<int64_t>(0, kLargestSize));
}

RecurrentSeq2SeqConfig RecurrentSeq2SeqConfig::from_json(const std::string& text, const std::string& label) {
  return checked(read_config<RecurrentSeq2SeqConfig>(text, label));
}

std::string RecurrentSeq2SeqConfig::to_json() const { return write_config(*this); }

void RecurrentSeq2SeqConfig::check() const {
  require<ConfigError>(
      source_vocabulary > 0 && target_vocabulary > 0 && d_embedding > 0 && d_hidden > 0 && layers > 0,
      "[recurrent] vocabularies {} and {}, d_embedding {}, d_hidden {}, {} layers: all must be at least 1",
      source_vocabulary, target_vocabulary, d_embedding, d_hidden, layers);
  require_rate("recurrent", "dropout", dropout);
  require_ids({{"pad_id", pad_id}, {"bos_id", bos_id}, {"eos_id", eos_id}}, target_vocabulary);
}

RecurrentSeq2Seq::RecurrentSeq2Seq(const Config& config, std::unique_ptr<nn::Parameters> parameters)
    : config_(checked(config)),
      parameters_(std::move(parameters)),
      root_(*parameters_),
      source_embedding_(
          nn::TokenTable(root_ / "encoder" / "embedding", config_.source_vocabulary, config_.d_embedding, 0.1).W, {}, 1,
          float(config_.dropout)),
      target_embedding_(
          nn::TokenTable(root_ / "decoder" / "embedding", config_.target_vocabulary, config_.d_embedding, 0.1).W, {}, 1,
          float(config_.dropout)),
      encoder_(root_ / "encoder", config_.cell, config_.layers, config_.d_embedding, config_.d_hidden,
               config_.bidirectional, float(config_.dropout)),
      decoder_(root_ / "decoder", config_.cell, config_.layers,
               config_.d_embedding + (config_.attention == RecurrentAttention::bahdanau ? memory_size() : 0),
               config_.d_hidden, false, float(config_.dropout)),
      scores_(make_scores()),
      output_(root_ / "output", config_.d_hidden, config_.target_vocabulary) {
  for (int64_t i = 0; i < config_.layers; ++i) {
    bridge_h_.emplace_back(root_ / "bridge" / i / "h", memory_size(), config_.d_hidden);
    if (config_.cell == Cell::lstm) bridge_c_.emplace_back(root_ / "bridge" / i / "c", memory_size(), config_.d_hidden);
  }
  if (config_.attention == RecurrentAttention::luong_dot && memory_size() != config_.d_hidden)
    keys_.emplace(root_ / "attention" / "keys", memory_size(), config_.d_hidden, nn::Linear::Options{.bias = false});
  if (config_.attention != RecurrentAttention::none) {
    const int64_t extra = config_.attention == RecurrentAttention::bahdanau ? config_.d_embedding : 0;
    combine_.emplace(root_ / "combine", memory_size() + config_.d_hidden + extra, config_.d_hidden);
  }
  parameters_->freeze_layout();
}

RecurrentSeq2Seq::Scores RecurrentSeq2Seq::make_scores() const {
  const nn::Scope scope = root_ / "attention";
  switch (config_.attention) {
    case RecurrentAttention::none: break;
    case RecurrentAttention::luong_dot: return nn::DotScores{};
    case RecurrentAttention::luong_general: return nn::MultiplicativeScores(scope, config_.d_hidden, memory_size());
    case RecurrentAttention::bahdanau:
      return nn::AdditiveScores(scope, config_.d_hidden, memory_size(),
                                config_.d_attention > 0 ? config_.d_attention : config_.d_hidden);
  }
  return std::monostate{};
}

RecurrentSeq2Seq::Memory RecurrentSeq2Seq::encode(const Tensor& source, const Tensor& lengths, nn::Context& ctx) const {
  const nn::RecurrentStack::Result result = encoder_(source_embedding_(source, ctx), lengths, ctx);
  Memory memory{result.outputs, result.outputs, lengths, {}};
  if (keys_) memory.keys = (*keys_)(result.outputs);
  if (const auto* additive = std::get_if<nn::AdditiveScores>(&scores_)) memory.keys = additive->keys(result.outputs);
  for (size_t i = 0; i < result.finals.size(); ++i) {
    CellState start{bridge_h_[i](result.finals[i].h, Activation::tanh), {}};
    if (config_.cell == Cell::lstm) start.c = bridge_c_[i](result.finals[i].c);
    memory.start.push_back(start);
  }
  return memory;
}

Tensor RecurrentSeq2Seq::decode(const Tensor& target, const Memory& memory, nn::Context& ctx) const {
  require<ShapeError>(int64_t(memory.start.size()) == config_.layers && memory.states.defined(),
                      "[recurrent] a memory of {} states for {} layers: it comes from encode", memory.start.size(),
                      config_.layers);
  const Tensor x = target_embedding_(target, ctx);  // [B, T, d_embedding]
  switch (config_.attention) {
    case RecurrentAttention::none: return decoder_(x, memory.start, ctx).outputs;
    case RecurrentAttention::bahdanau: return decode_bahdanau(x, memory, ctx);
    case RecurrentAttention::luong_dot:
    case RecurrentAttention::luong_general: break;
  }
  return decode_luong(x, memory, ctx);
}

/// s_t = cell([y_{t-1}; c_t], s_{t-1}),  c_t = attention asked with s_{t-1};  out_t = tanh(W [s_t; c_t; y_{t-1}])
Tensor RecurrentSeq2Seq::decode_bahdanau(const Tensor& x, const Memory& memory, nn::Context& ctx) const {
  const auto& scores = std::get<nn::AdditiveScores>(scores_);
  std::vector<CellState> state = memory.start;
  std::vector<Tensor> rows, weights;
  const int64_t B = x.size(0), T = x.size(1), H = config_.d_hidden;
  for (int64_t t = 0; t < T; ++t) {
    const Tensor y = x.select(1, t);  // [B, d_embedding]
    const Tensor query = state.back().h.view({B, 1, H});
    const nn::Attended seen = nn::weighted_sum(scores(query, memory.keys), memory.states, memory.lengths);
    const Tensor context = seen.context.view({B, memory_size()});
    Tensor input = concat({y, context}, 1);
    for (size_t i = 0; i < state.size(); ++i) {
      if (i > 0) input = dropout(input, ctx.dropout(decoder_.p), ctx.next_random());
      state[i] = decoder_.forwards[i].step(input, state[i]);
      input = state[i].h;
    }
    rows.push_back(concat({state.back().h, context, y}, 1));
    weights.push_back(seen.weights);  // [B, 1, S]
  }
  if (ctx.probe) probe(concat(weights, 1), ctx);
  return (*combine_)(stack(rows, 1), Activation::tanh);  // [B, T, H]
}

/// s = all states of the decoder;  c = attention asked with s;  out = tanh(W [s; c])
Tensor RecurrentSeq2Seq::decode_luong(const Tensor& x, const Memory& memory, nn::Context& ctx) const {
  const Tensor s = decoder_(x, memory.start, ctx).outputs;  // [B, T, H]
  const auto* general = std::get_if<nn::MultiplicativeScores>(&scores_);
  const Tensor e = general ? (*general)(s, memory.keys) : nn::DotScores{}(s, memory.keys);  // [B, T, S]
  const nn::Attended seen = nn::weighted_sum(e, memory.states, memory.lengths);
  if (ctx.probe) probe(seen.weights, ctx);
  return (*combine_)(concat({s, seen.context}, 2), Activation::tanh);  // [B, T, H]
}

void RecurrentSeq2Seq::probe(const Tensor& weights, nn::Context& ctx) const {
  const Tensor values = stop_gradient(weights);  // [B, T, S]: one head
  ctx.probe->records.push_back({"decoder.attention", values.view(values.shape().inserted(1, 1))});
}

Tensor RecurrentSeq2Seq::loss(const Tensor& source, const Tensor& source_lengths, const Tensor& target_in,
                              const Tensor& labels, const CrossEntropyOptions& options, nn::Context& ctx) const {
  const Tensor hidden = decode(target_in, encode(source, source_lengths, ctx), ctx);
  return projected_cross_entropy(hidden, output_.W, output_.b, labels, options);
}

}  // namespace rapt::models
