// Streaming attention for a few queries, as in decoding: the keys and values are most of the work, so they are read once,
// where they lie, for all heads of their group.
#include <kernels/cpu/attention_problem.hpp>
#include <rapt/base/threads.hpp>

#include <limits>

namespace rapt::kernels::cpu::attention {
namespace {

constexpr int kKeys = 128;

struct Buffers {
  float *q, *s, *p, *o, *maximum, *sum, *reciprocal;
  KeepBits* keep;

  void place(Carver& carver, int64_t rows, int d_k, int d_v) {
    carver.take(q, rows * d_k);
    carver.take(s, kDecodeQueries * kKeys);
    carver.take(p, kDecodeQueries * kKeys);
    carver.take(o, rows * d_v);
    carver.take(maximum, rows + kLanes);
    carver.take(sum, rows * kLanes);
    carver.take(reciprocal, rows + kLanes);
    carver.take(keep, 1);
  }
};

class Decode {
 public:
  explicit Decode(const AttentionForward& a)
      : problem_(a),
        unit_(vector_unit(problem_.bf16)),
        common_(common(problem_.bf16)),
        q_(a.q),
        k_(a.k),
        v_(a.v),
        o_(a.o),
        lse_(a.lse.data<float>()),
        weights_(a.weights ? a.weights.data<float>() : nullptr),
        queries_(int(problem_.query_length)),
        d_k_(round_up(problem_.d_k, kPadding)),
        d_v_(round_up(problem_.d_v, kPadding)) {}

  void run() const {
    const Problem& p = problem_;
    parallel_for(p.batch * p.key_heads, 1, [&](int64_t begin, int64_t end) {
      Scratch<Buffers> buffers(p.group() * queries_, d_k_, d_v_);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t b = task / p.key_heads, g = task % p.key_heads;
        attend(b, g, *buffers);
        if (weights_) record_weights(b, g, *buffers);
      }
    });
  }

 private:
  /// Keys j .. j + columns for the queries of one head; visible[r] of them count for query r.
  struct Block {
    int64_t b, head, j;
    int columns;
    int visible[kDecodeQueries];
  };

  /// Rows of the buffers that belong to a head.
  int64_t row_of(int64_t head) const { return head % problem_.group() * queries_; }

  void attend(int64_t b, int64_t g, Buffers& t) const {
    const Problem& p = problem_;
    const int rows = int(p.group()) * queries_;
    const int64_t first_head = g * p.group();
    for (int64_t head = first_head; head < first_head + p.group(); ++head)
      unit_.pack_rows(q_.rows(b, 0, head, queries_), t.q + row_of(head) * d_k_, d_k_, queries_);
    std::fill(t.maximum, t.maximum + rows, -std::numeric_limits<float>::infinity());
    std::fill(t.sum, t.sum + rows * kLanes, 0.0f);
    const int64_t end = p.visible(b, queries_ - 1);
    for (int64_t j = 0; j < end; j += kKeys)
      for (int64_t head = first_head; head < first_head + p.group(); ++head)
        attend(block_at(b, head, j, int(std::min<int64_t>(kKeys, end - j))), t);
    common_.finish(t.maximum, t.sum, rows, p.keep_scale, lse_ + (b * p.heads + first_head) * queries_, t.reciprocal);
    for (int64_t head = first_head; head < first_head + p.group(); ++head)
      unit_.store(t.o + row_of(head) * d_v_, d_v_, t.reciprocal + row_of(head), 1, o_.rows(b, 0, head, queries_),
                  false);
  }

  Block block_at(int64_t b, int64_t head, int64_t j, int columns) const {
    Block block{b, head, j, columns, {}};
    for (int r = 0; r < queries_; ++r)
      block.visible[r] = int(std::clamp<int64_t>(problem_.visible(b, r) - j, 0, columns));
    return block;
  }

  /// S = Q K^T + bias / scale
  void score(const Block& block, Buffers& t) const {
    const Problem& p = problem_;
    common_.dot_rows(t.q + row_of(block.head) * d_k_, d_k_, queries_,
                     k_.rows(block.b, block.j, block.head / p.group(), block.columns), t.s, kKeys);
    if (p.slopes)
      common_.add_bias(t.s, kKeys, queries_, round_up(block.columns, kTile), p.slopes[block.head] / p.scale,
                       float(block.j - p.offset()), -1, 1);
  }

  void attend(const Block& block, Buffers& t) const {
    const Problem& p = problem_;
    score(block, t);
    const uint8_t* keep = nullptr;
    if (p.drop_below)
      keep = t.keep->rows(p, block.b, block.head, 0, queries_, block.j,
                          int(std::min<int64_t>(kKeys, p.key_length - block.j)));
    const int64_t row = row_of(block.head);
    float* o = t.o + row * d_v_;
    unit_.softmax({t.s, kKeys, t.p, kKeys, queries_, block.columns, block.visible, p.factor, t.maximum + row,
                   t.sum + row * kLanes, o, d_v_, d_v_, block.j == 0, keep});
    common_.add_rows(t.p, kKeys, queries_, v_.rows(block.b, block.j, block.head / p.group(), block.columns), o, d_v_,
                     block.j > 0);
  }

  /// The probe: the scores once more, now that log sum exp is known.
  void record_weights(int64_t b, int64_t g, Buffers& t) const {
    const Problem& p = problem_;
    for (int64_t head = g * p.group(); head < (g + 1) * p.group(); ++head)
      for (int64_t j = 0; j < p.key_length; j += kKeys) {
        const int count = int(std::min<int64_t>(kKeys, p.key_length - j));
        const Block block = block_at(b, head, j, int(std::clamp<int64_t>(p.keys(b) - j, 0, count)));
        score(block, t);
        for (int r = 0; r < queries_; ++r) {
          const int64_t n = (b * p.heads + head) * queries_ + r;
          common_.weights(t.s + r * kKeys, block.visible[r], count, p.factor, lse_[n] * float(std::numbers::log2e),
                          weights_ + n * p.key_length + j);
        }
      }
  }

  const Problem problem_;
  const Unit& unit_;
  const Common& common_;
  const Heads q_, k_, v_, o_;
  float* lse_;
  float* weights_;
  const int queries_;
  const int d_k_, d_v_;  // padded
};

}  // namespace

void decode(const AttentionForward& args) { Decode(args).run(); }

}  // namespace rapt::kernels::cpu::attention
