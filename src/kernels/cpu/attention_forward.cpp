// Streaming attention, forward: the keys pass block by block by a span of queries, whose maxima, sums and outputs are
// carried along [Milakov 2018, Dao 2022]. Scores exist for one small block at a time.
#include <kernels/cpu/attention_problem.hpp>
#include <rapt/base/threads.hpp>

#include <limits>

namespace rapt::kernels::cpu::attention {
namespace {

constexpr int kSpan = 256;    // queries of a task: enough to pay for packing the keys
constexpr int kQueries = 32;  // and of a block of scores,
constexpr int kKeys = 128;    // which stays in the nearest cache with its weights

struct Buffers {
  std::byte *q, *k, *v, *p;
  float *s, *o, *maximum, *sum, *reciprocal, *lse;
  KeepBits* keep;
  Prefetcher* next;

  void place(Carver& carver, const Unit& unit, int span, int keys, int d_k, int d_v) {
    const int size = unit.element_size;
    carver.take(q, span * d_k * size);
    carver.take(k, keys * d_k * size);
    carver.take(v, keys * d_v * size);
    carver.take(p, kQueries * keys * size);
    carver.take(s, kQueries * keys);
    carver.take(o, span * d_v);
    carver.take(maximum, span);
    carver.take(sum, span * kLanes);
    carver.take(reciprocal, span);
    carver.take(lse, span);
    carver.take(keep, 1);
    carver.take(next, 1);
  }
};

class Forward {
 public:
  Forward(const AttentionForward& a, const Unit& unit)
      : problem_(a),
        unit_(unit),
        common_(common(problem_.bf16)),
        q_(a.q),
        k_(a.k),
        v_(a.v),
        o_(a.o),
        lse_(a.lse.data<float>()),
        weights_(a.weights ? a.weights.data<float>() : nullptr),
        d_k_(round_up(problem_.d_k, kPadding)),
        d_v_(round_up(problem_.d_v, kPadding)),
        queries_(problem_.causal && problem_.query_length <= kKeys ? kTile : kQueries),
        span_(int(std::min<int64_t>(kSpan, (problem_.query_length + kPadding - 1) / kPadding * kPadding))),
        keys_(int(std::clamp<int64_t>((problem_.key_length + kPadding - 1) / kPadding * kPadding, kPadding, kKeys))) {}

  void run() const {
    const Problem& p = problem_;
    const int64_t spans = (p.query_length + kSpan - 1) / kSpan, tasks = p.batch * p.heads * spans;
    const int64_t grain = std::clamp<int64_t>(tasks / (8 * thread_count()), 1, 64);
    parallel_for(tasks, grain, [&](int64_t begin, int64_t end) {
      Scratch<Buffers> buffers(unit_, span_, keys_, d_k_, d_v_);
      const UnitSession session(unit_);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t i = task % spans * kSpan, bh = task / spans;
        const Span span{bh / p.heads, bh % p.heads, i, int(std::min<int64_t>(kSpan, p.query_length - i))};
        prefetch(task + 1 < end && spans == 1 ? bh + 1 : -1, *(*buffers).next);
        attend(span, *buffers);
        if (weights_) record_weights(span, *buffers);
      }
    });
  }

 private:
  /// Queries i .. i + rows of one head.
  struct Span {
    int64_t b, head, i;
    int rows;
  };
  /// Queries row .. row + rows of a span and keys j .. j + columns; visible[r] of these keys count for query r.
  struct Block {
    int row, rows;
    int64_t j;
    int columns;
    int visible[kQueries];
  };

  /// What head bh will touch, if its keys fit one block; -1 for none.
  void prefetch(int64_t bh, Prefetcher& next) const {
    const Problem& p = problem_;
    next.begin(3 * int((p.query_length + queries_ - 1) / queries_));
    if (bh < 0 || p.key_length > kKeys) return;
    const int64_t b = bh / p.heads, head = bh % p.heads;
    next.add(q_.rows(b, 0, head, p.query_length), q_.element_size);
    next.add(o_.rows(b, 0, head, p.query_length), o_.element_size);
    next.add(k_.rows(b, 0, head / p.group(), p.key_length), k_.element_size);
    next.add(v_.rows(b, 0, head / p.group(), p.key_length), v_.element_size);
  }

  void attend(const Span& span, Buffers& t) const {
    const Problem& p = problem_;
    unit_.pack_rows(q_.rows(span.b, span.i, span.head, span.rows), t.q, d_k_, round_up(span.rows, kTile));
    std::fill(t.maximum, t.maximum + span_, -std::numeric_limits<float>::infinity());
    std::fill(t.sum, t.sum + span.rows * kLanes, 0.0f);
    const int64_t end = p.visible(span.b, span.i + span.rows - 1);
    for (int64_t j = 0; j < end; j += keys_) {
      const int count = int(std::min<int64_t>(keys_, end - j));
      pack_keys(span, j, count, t);
      unit_.pack_b(v_.rows(span.b, j, span.head / p.group(), count), t.v, d_v_, round_up(count, kPadding));
      for (int row = 0; row < span.rows; row += queries_) {
        const Block block = block_at(span, row, j, count);
        if (block.columns > 0) attend(span, block, t);
      }
    }
    float* lse = lse_ + (span.b * p.heads + span.head) * p.query_length + span.i;
    common_.finish(t.maximum, t.sum, span.rows, p.keep_scale, lse, t.reciprocal);
    unit_.store(t.o, d_v_, t.reciprocal, 1, o_.rows(span.b, span.i, span.head, span.rows), false);
  }

  void attend(const Span& span, const Block& block, Buffers& t) const {
    const Problem& p = problem_;
    t.next->step();
    multiply_scores(span, block, t);
    t.next->step();
    const uint8_t* keep = p.drop_below ? t.keep->rows(p, span.b, span.head, span.i + block.row, block.rows, block.j,
                                                      int(std::min<int64_t>(keys_, p.key_length - block.j)))
                                       : nullptr;
    const int inner = round_up(block.columns, unit_.inner_multiple);
    float* o = t.o + block.row * d_v_;
    unit_.softmax({t.s, keys_, t.p, keys_, block.rows, inner, block.visible, p.factor, t.maximum + block.row,
                   t.sum + block.row * kLanes, o, d_v_, round_up(p.d_v, kTile), block.j == 0, keep});
    t.next->step();
    unit_.multiply({t.p, keys_, 1, t.v, d_v_, o, d_v_, block.rows, round_up(p.d_v, kTile), inner, block.j > 0});
  }

  /// How many of the keys j .. j + count each query of the block sees; `columns` is the most of these.
  Block block_at(const Span& span, int row, int64_t j, int count) const {
    Block block{row, std::min(queries_, span.rows - row), j, 0, {}};
    for (int r = 0; r < block.rows; ++r) {
      const int64_t visible = problem_.visible(span.b, span.i + row + r) - j;
      block.visible[r] = int(std::clamp<int64_t>(visible, 0, count));
    }
    block.columns = block.visible[block.rows - 1];
    return block;
  }

  void pack_keys(const Span& span, int64_t j, int count, Buffers& t) const {
    unit_.pack_b_transposed(k_.rows(span.b, j, span.head / problem_.group(), count), t.k, keys_, d_k_);
  }

  /// S = Q K^T + bias / scale
  void multiply_scores(const Span& span, const Block& block, Buffers& t) const {
    const Problem& p = problem_;
    const int columns = round_up(block.columns, kTile);
    unit_.multiply({t.q + block.row * d_k_ * unit_.element_size, d_k_, 1, t.k, keys_, t.s, keys_, block.rows, columns,
                    round_up(p.d_k, unit_.inner_multiple), false});
    if (p.slopes)
      common_.add_bias(t.s, keys_, block.rows, columns, p.slopes[span.head] / p.scale,
                       float(block.j - p.offset() - span.i - block.row), -1, 1);
  }

  /// The probe: the scores once more, now that log sum exp is known, so that asking for weights changes nothing else.
  void record_weights(const Span& span, Buffers& t) const {
    const Problem& p = problem_;
    const int64_t first = (span.b * p.heads + span.head) * p.query_length + span.i;
    for (int64_t j = 0; j < p.key_length; j += keys_) {
      const int count = int(std::min<int64_t>(keys_, p.key_length - j));
      const int64_t seen = std::clamp<int64_t>(p.keys(span.b) - j, 0, count);
      if (seen > 0) pack_keys(span, j, int(seen), t);
      for (int row = 0; row < span.rows; row += queries_) {
        const Block block = block_at(span, row, j, int(seen));
        if (block.columns > 0) multiply_scores(span, block, t);
        for (int r = 0; r < block.rows; ++r) {
          const int64_t n = first + row + r;
          common_.weights(t.s + r * keys_, block.visible[r], count, p.factor, lse_[n] * float(std::numbers::log2e),
                          weights_ + n * p.key_length + j);
        }
      }
    }
  }

  const Problem problem_;
  const Unit& unit_;
  const Common& common_;
  const Heads q_, k_, v_, o_;
  float* lse_;
  float* weights_;
  const int d_k_, d_v_;    // padded
  const int queries_;      // of a block: fewer for short causal sequences, of which more can then be left out
  const int span_, keys_;  // sizes of the buffers, less than kSpan and kKeys for short sequences
};

}  // namespace

void forward(const AttentionForward& args, const Unit& unit) { Forward(args, unit).run(); }

}  // namespace rapt::kernels::cpu::attention
