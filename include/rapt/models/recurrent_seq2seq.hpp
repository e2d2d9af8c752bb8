#pragma once
#include <rapt/nn/attention.hpp>
#include <rapt/nn/embedding.hpp>
#include <rapt/nn/recurrent.hpp>

#include <memory>
#include <optional>
#include <string>
#include <variant>

namespace rapt::models {

enum class RecurrentAttention {
  none,           ///< the decoder knows the source only through the encoder's last state
  bahdanau,       ///< additive, asked with the state before the step
  luong_dot,      ///< dot product, asked with the state after the step
  luong_general,  ///< with a matrix in between
};

struct RecurrentSeq2SeqConfig {
  int64_t source_vocabulary = 0, target_vocabulary = 0;
  int64_t d_embedding = 256, d_hidden = 512, d_attention = 0;  ///< d_attention 0: as d_hidden
  int64_t layers = 1;
  Cell cell = Cell::gru;
  bool bidirectional = true;  ///< the encoder
  RecurrentAttention attention = RecurrentAttention::bahdanau;
  double dropout = 0.1;
  int64_t pad_id = 0, bos_id = 1, eos_id = 2;

  static RecurrentSeq2SeqConfig from_json(const std::string& text, const std::string& label = "config.json");
  std::string to_json() const;
  void check() const;
};

/// The sequence-to-sequence models before the Transformer.
class RecurrentSeq2Seq {
 public:
  using Config = RecurrentSeq2SeqConfig;
  RecurrentSeq2Seq(const Config& config, std::unique_ptr<nn::Parameters> parameters);
  explicit RecurrentSeq2Seq(const Config& config, uint64_t seed = 1, DType dtype = DType::f32)
      : RecurrentSeq2Seq(config, std::make_unique<nn::Parameters>(seed, dtype)) {}

  struct Memory {
    Tensor states;                 ///< [B, S, H or 2H]: one a source position
    Tensor keys;                   ///< what the scores see of them
    Tensor lengths;                ///< [B] or undefined
    std::vector<CellState> start;  ///< of the decoder, one a layer
  };
  Memory encode(const Tensor& source, const Tensor& lengths, nn::Context& ctx) const;
  /// target [B, T] (shifted right) -> [B, T, d_hidden]
  Tensor decode(const Tensor& target, const Memory& memory, nn::Context& ctx) const;
  Tensor logits(const Tensor& hidden) const { return output_(hidden); }
  Tensor loss(const Tensor& source, const Tensor& source_lengths, const Tensor& target_in, const Tensor& labels,
              const CrossEntropyOptions& options, nn::Context& ctx) const;

  const Config& config() const { return config_; }
  nn::Parameters& parameters() const { return *parameters_; }

 private:
  using Scores = std::variant<std::monostate, nn::DotScores, nn::MultiplicativeScores, nn::AdditiveScores>;
  Scores make_scores() const;
  Tensor decode_bahdanau(const Tensor& x, const Memory& memory, nn::Context& ctx) const;
  Tensor decode_luong(const Tensor& x, const Memory& memory, nn::Context& ctx) const;
  void probe(const Tensor& weights, nn::Context& ctx) const;
  int64_t memory_size() const { return config_.bidirectional ? 2 * config_.d_hidden : config_.d_hidden; }

  Config config_;
  std::unique_ptr<nn::Parameters> parameters_;
  nn::Scope root_;
  nn::Embedding source_embedding_, target_embedding_;
  nn::RecurrentStack encoder_;
  std::vector<nn::Linear> bridge_h_, bridge_c_;  // from the encoder's last state to the decoder's first, one a layer
  nn::RecurrentStack decoder_;
  Scores scores_;
  std::optional<nn::Linear> keys_;     // Luong dot: memory brought to the size of the queries, when they differ
  std::optional<nn::Linear> combine_;  // context and state (and input) to what the output layer sees
  nn::Linear output_;
};

}  // namespace rapt::models
