// Streaming attention, backward: a span of keys stays while all queries that see it pass by, block by block. Scores lie
// with the keys as rows, so that the weights are ready as left operands of dV and dK, which gather in the span.
#include <kernels/cpu/attention_problem.hpp>
#include <rapt/base/threads.hpp>

namespace rapt::kernels::cpu::attention {
namespace {

constexpr int kSpan = 256;       // keys that stay in the second cache, with their gradients
constexpr int kKeys = 64;        // keys
constexpr int kQueries = 64;     // and queries of a block of scores
constexpr int kCausalKeys = 16;  // fewer keys for short causal sequences, of which more can then be left out
constexpr int kMaxBlocks = kSpan / kCausalKeys;

/// Tasks for a machine with many cores when there are few heads; each part holds a dQ of its own, so they are few. A
/// function of the sizes alone, and not of the number of threads, because it decides in which order dQ is summed.
int64_t parts_for(const Problem& p) {
  const int64_t wanted = (32 + p.batch * p.key_heads - 1) / (p.batch * p.key_heads);
  return std::clamp<int64_t>(std::min<int64_t>(wanted, p.key_length / (2 * kSpan)), 1, 4);
}

struct Sizes {
  int d_k, d_v;             // padded
  int span, queries;        // of the buffers: less than kSpan and kQueries for short sequences
  int64_t query_gradients;  // rows of the private dQ
};

struct Buffers {
  std::byte *k, *v, *k_b;                                // operands of the span: K, V as A, K as B
  std::byte *q_transposed, *do_transposed, *q_b, *do_b;  // of a block of queries, all B
  std::byte *p, *ds, *ds_transposed;
  float *s, *dp, *dk, *dv, *dq, *lse2, *delta;
  KeepBits* keep;
  Prefetcher* next;

  void place(Carver& carver, const Unit& unit, const Sizes& z) {
    const int size = unit.element_size;
    carver.take(k, z.span * z.d_k * size);
    carver.take(v, z.span * z.d_v * size);
    carver.take(k_b, z.span * z.d_k * size);
    carver.take(q_transposed, z.queries * z.d_k * size);
    carver.take(do_transposed, z.queries * z.d_v * size);
    carver.take(q_b, z.queries * z.d_k * size);
    carver.take(do_b, z.queries * z.d_v * size);
    carver.take(p, kKeys * z.queries * size);
    carver.take(ds, kKeys * z.queries * size);
    carver.take(ds_transposed, unit.strided_a ? 0 : kKeys * z.queries * size);
    carver.take(s, kKeys * z.queries);
    carver.take(dp, kKeys * z.queries);
    carver.take(dk, z.span * z.d_k);
    carver.take(dv, z.span * z.d_v);
    carver.take(dq, z.query_gradients * z.d_k);
    carver.take(lse2, z.queries);
    carver.take(delta, z.queries);
    carver.take(keep, 1);
    carver.take(next, 1);
  }
};

class Backward {
 public:
  Backward(const AttentionBackward& a, const Unit& unit)
      : a_(a),
        problem_(a),
        unit_(unit),
        common_(common(problem_.bf16)),
        q_(a.q),
        k_(a.k),
        v_(a.v),
        o_(a.o),
        d_o_(a.d_o),
        dq_(a.dq),
        dk_(a.dk),
        dv_(a.dv),
        keys_(problem_.causal && problem_.key_length <= 2 * kKeys ? std::max(kCausalKeys, unit.inner_multiple) : kKeys),
        spans_((problem_.key_length + kSpan - 1) / kSpan),
        parts_(parts_for(problem_)) {
    const auto padded = [](int64_t n, int most) {
      return int(std::clamp<int64_t>((n + 31) / 32 * 32, kPadding, most));
    };
    sizes_.d_k = round_up(problem_.d_k, kPadding);
    sizes_.d_v = round_up(problem_.d_v, kPadding);
    sizes_.span = padded(problem_.key_length, kSpan);
    sizes_.queries = padded(problem_.query_length, kQueries);
    padded_length_ = (problem_.query_length + kTile - 1) / kTile * kTile;
    // One span: dQ of a block of queries is complete at once. Several parts: all parts are kept until they are added.
    sizes_.query_gradients = spans_ <= 1 ? sizes_.queries : parts_ > 1 ? 0 : problem_.group() * padded_length_;
  }

  void run() {
    const Problem& p = problem_;
    if (parts_ > 1) {
      const int64_t rows = p.batch * p.heads * parts_ * padded_length_;
      partial_ = Storage::allocate(size_t(rows * sizes_.d_k) * sizeof(float));
    }
    const int64_t tasks = p.batch * p.key_heads * parts_;
    const int64_t grain = std::clamp<int64_t>(tasks / (8 * thread_count()), 1, 64);
    parallel_for(tasks, grain, [&](int64_t begin, int64_t end) {
      Scratch<Buffers> buffers(unit_, sizes_);
      const UnitSession session(unit_);
      (*buffers).keep->reset();
      for (int64_t task = begin; task < end; ++task) {
        const int64_t part = task % parts_, bg = task / parts_;
        prefetch(task + 1 < end ? bg + 1 : -1, *(*buffers).next);
        differentiate(bg / p.key_heads, bg % p.key_heads, part, *buffers);
      }
    });
    if (parts_ > 1) add_parts();
  }

 private:
  /// Keys j .. j + rows of one key head, of which the first `keys` are not padding.
  struct Span {
    int64_t b, g, j;
    int rows, keys;
    bool touched[kMaxBlocks];  // blocks of keys whose dK and dV hold something
  };
  /// Queries i .. i + rows of one head.
  struct Queries {
    int64_t head, i;
    int rows;
  };

  /// What key head bg will touch, if all of it is one block of queries and one span; -1 for none.
  void prefetch(int64_t bg, Prefetcher& next) const {
    const Problem& p = problem_;
    next.begin(5 * int((p.key_length + keys_ - 1) / keys_));
    if (bg < 0 || p.key_length > kSpan || p.query_length > kQueries || p.group() > 1) return;
    const int64_t b = bg / p.key_heads, head = bg % p.key_heads;
    for (const Heads* x : {&k_, &v_, &dk_, &dv_}) next.add(x->rows(b, 0, head, p.key_length), x->element_size);
    for (const Heads* x : {&q_, &o_, &d_o_, &dq_}) next.add(x->rows(b, 0, head, p.query_length), x->element_size);
  }

  /// Where the private dQ of a head begins.
  float* query_gradient(int64_t b, int64_t head, int64_t part, Buffers& t) const {
    if (spans_ <= 1) return t.dq;
    if (parts_ == 1) return t.dq + head % problem_.group() * padded_length_ * sizes_.d_k;
    return reinterpret_cast<float*>(partial_->data()) +
           ((b * problem_.heads + head) * parts_ + part) * padded_length_ * sizes_.d_k;
  }

  void differentiate(int64_t b, int64_t g, int64_t part, Buffers& t) const {
    const Problem& p = problem_;
    const int64_t first_head = g * p.group();
    if (spans_ != 1)
      for (int64_t head = first_head; head < first_head + p.group(); ++head)
        std::fill_n(query_gradient(b, head, part, t), padded_length_ * sizes_.d_k, 0.0f);
    for (int64_t s = spans_ * part / parts_; s < spans_ * (part + 1) / parts_; ++s) {
      Span span{b, g, s * kSpan, 0, 0, {}};
      span.rows = int(std::min<int64_t>(kSpan, p.key_length - span.j));
      span.keys = int(std::clamp<int64_t>(p.keys(b) - span.j, 0, span.rows));
      differentiate(span, part, t);
    }
    if (spans_ != 1 && parts_ == 1)
      for (int64_t head = first_head; head < first_head + p.group(); ++head)
        store_query_gradient(query_gradient(b, head, part, t), b, {head, 0, int(p.query_length)});
  }

  void differentiate(Span& span, int64_t part, Buffers& t) const {
    const Problem& p = problem_;
    pack_span(span, t);
    for (int64_t head = span.g * p.group(); head < (span.g + 1) * p.group(); ++head)
      for (int64_t i = 0; i < p.query_length; i += kQueries) {
        const Queries queries{head, i, int(std::min<int64_t>(kQueries, p.query_length - i))};
        float* dq = query_gradient(span.b, head, part, t) + (spans_ <= 1 ? 0 : i * sizes_.d_k);
        const int64_t seen = p.visible(span.b, i + queries.rows - 1) - span.j;
        if (seen > 0) {
          pack_queries(span, queries, t);
          for (int block = 0; block * keys_ < std::min<int64_t>(seen, span.keys); ++block)
            differentiate(span, queries, block, dq, spans_ > 1 || block > 0, t);
        }
        if (spans_ != 1) continue;
        if (seen <= 0) std::fill_n(dq, queries.rows * sizes_.d_k, 0.0f);
        store_query_gradient(dq, span.b, queries);
      }
    store_span(span, t);
  }

  void pack_span(const Span& span, Buffers& t) const {
    const Rows k = k_.rows(span.b, span.j, span.g, span.keys), v = v_.rows(span.b, span.j, span.g, span.keys);
    unit_.pack_rows(k, t.k, sizes_.d_k, round_up(span.keys, kTile));
    unit_.pack_rows(v, t.v, sizes_.d_v, round_up(span.keys, kTile));
    unit_.pack_b(k, t.k_b, sizes_.d_k, round_up(span.keys, kPadding));
  }

  void pack_queries(const Span& span, const Queries& queries, Buffers& t) const {
    const Problem& p = problem_;
    const Rows q = q_.rows(span.b, queries.i, queries.head, queries.rows);
    const Rows d_o = d_o_.rows(span.b, queries.i, queries.head, queries.rows);
    unit_.pack_b_transposed(q, t.q_transposed, sizes_.queries, sizes_.d_k);
    unit_.pack_b_transposed(d_o, t.do_transposed, sizes_.queries, sizes_.d_v);
    unit_.pack_b(q, t.q_b, sizes_.d_k, sizes_.queries);
    unit_.pack_b(d_o, t.do_b, sizes_.d_v, sizes_.queries);
    common_.row_dots(d_o, o_.rows(span.b, queries.i, queries.head, queries.rows), t.delta);
    const float* lse = a_.lse.data<float>() + (span.b * p.heads + queries.head) * p.query_length + queries.i;
    for (int r = 0; r < sizes_.queries; ++r) {
      const bool sees = r < queries.rows && !(lse[r] < -1e30f);
      t.lse2[r] = sees ? lse[r] * float(std::numbers::log2e) : 1e30f;
      if (r >= queries.rows) t.delta[r] = 0;
    }
  }

  /// The five products of one block of keys and one of queries, without those queries that come before all its keys.
  void differentiate(Span& span, const Queries& queries, int block, float* dq, bool accumulate_dq, Buffers& t) const {
    const Problem& p = problem_;
    const int first = block * keys_, keys = std::min(keys_, span.keys - first), size = unit_.element_size;
    const int64_t ahead = span.j + first - p.offset() - queries.i;
    const int step = std::max(kTile, unit_.inner_multiple);
    const int skip = p.causal ? int(std::clamp<int64_t>(ahead, 0, queries.rows - 1)) / step * step : 0;
    const int rows = queries.rows - skip, columns = round_up(rows, kTile), stride = sizes_.queries;
    const int d_k = sizes_.d_k, d_v = sizes_.d_v;
    const std::byte *k = t.k + first * d_k * size, *v = t.v + first * d_v * size, *k_b = t.k_b + first * d_k * size;
    // S^T = K Q^T, dP^T = V do^T; a column of a B operand takes four bytes in every unit.
    t.next->step();
    unit_.multiply({k, d_k, 1, t.q_transposed + 4 * skip, stride, t.s, stride, keys, columns,
                    round_up(p.d_k, unit_.inner_multiple), false});
    t.next->step();
    unit_.multiply({v, d_v, 1, t.do_transposed + 4 * skip, stride, t.dp, stride, keys, columns,
                    round_up(p.d_v, unit_.inner_multiple), false});
    t.next->step();
    weigh(span, queries, first, keys, skip, t);
    // dV += P~^T do, dK += dS^T Q, dQ += dS K
    t.next->step();
    const int inner_queries = round_up(rows, unit_.inner_multiple), inner_keys = round_up(keys, unit_.inner_multiple);
    unit_.multiply({t.p, stride, 1, t.do_b + skip * d_v * size, d_v, t.dv + first * d_v, d_v, keys,
                    round_up(p.d_v, kTile), inner_queries, span.touched[block]});
    unit_.multiply({t.ds, stride, 1, t.q_b + skip * d_k * size, d_k, t.dk + first * d_k, d_k, keys,
                    round_up(p.d_k, kTile), inner_queries, span.touched[block]});
    t.next->step();
    if (!accumulate_dq) std::fill_n(dq, skip * d_k, 0.0f);
    const bool strided = unit_.strided_a;
    unit_.multiply({strided ? t.ds : t.ds_transposed, strided ? 1 : kKeys, strided ? stride : 1, k_b, d_k,
                    dq + skip * d_k, d_k, rows, round_up(p.d_k, kTile), inner_keys, accumulate_dq});
    span.touched[block] = true;
  }

  /// P~^T and dS^T of keys first .. first + keys of the span and the queries after the first `skip`.
  void weigh(const Span& span, const Queries& queries, int first, int keys, int skip, Buffers& t) const {
    const Problem& p = problem_;
    const int rows = queries.rows - skip, columns = round_up(rows, kTile), stride = sizes_.queries;
    const int64_t j = span.j + first, ahead = j - p.offset() - queries.i - skip;
    if (p.slopes) common_.add_bias(t.s, stride, keys, columns, p.slopes[queries.head] / p.scale, float(ahead), 1, -1);
    const uint8_t* keep = nullptr;
    if (p.drop_below)
      keep = t.keep->transposed(p, span.b, queries.head, queries.i, queries.rows, j,
                                int(std::min<int64_t>(keys_, p.key_length - j))) +
             skip / 8;
    const int diagonal = p.causal ? int(std::clamp<int64_t>(ahead, -kKeys, kQueries)) : -kKeys;
    unit_.gradient({t.s, t.dp, stride, keys, columns, round_up(rows, unit_.inner_multiple), diagonal, p.factor,
                    t.lse2 + skip, t.delta + skip, keep, p.keep_scale, t.p, t.ds, stride, t.ds_transposed, kKeys});
  }

  void store_span(const Span& span, const Buffers& t) const {
    const float one = 1, zero = 0;
    for (int block = 0; block * keys_ < span.rows; ++block) {
      const int first = block * keys_, rows = std::min(keys_, span.rows - first);
      const int keys = span.touched[block] ? std::clamp(span.keys - first, 0, rows) : 0;
      const auto store = [&](const float* from, int stride, const float& factor, const Heads& to, bool accumulate) {
        unit_.store(from + first * stride, stride, &factor, 0, to.rows(span.b, span.j + first, span.g, keys),
                    accumulate);
        unit_.store(from, 0, &zero, 0, to.rows(span.b, span.j + first + keys, span.g, rows - keys), accumulate);
      };
      store(t.dk, sizes_.d_k, problem_.scale, dk_, a_.accumulate_dk);
      store(t.dv, sizes_.d_v, one, dv_, a_.accumulate_dv);
    }
  }

  void store_query_gradient(const float* from, int64_t b, const Queries& queries) const {
    unit_.store(from, sizes_.d_k, &problem_.scale, 0, dq_.rows(b, queries.i, queries.head, queries.rows),
                a_.accumulate_dq);
  }

  /// dQ = the sum over the parts, in their order.
  void add_parts() const {
    const Problem& p = problem_;
    const int64_t blocks = padded_length_ / kTile;
    parallel_for(p.batch * p.heads * blocks, 4, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t bh = task / blocks, i = task % blocks * kTile;
        float* sum = reinterpret_cast<float*>(partial_->data()) + (bh * parts_ * padded_length_ + i) * sizes_.d_k;
        for (int64_t part = 1; part < parts_; ++part) {
          const float* from = sum + part * padded_length_ * sizes_.d_k;
          for (int n = 0; n < kTile * sizes_.d_k; ++n) sum[n] += from[n];
        }
        const int rows = int(std::min<int64_t>(kTile, p.query_length - i));
        store_query_gradient(sum, bh / p.heads, {bh % p.heads, i, rows});
      }
    });
  }

  const AttentionBackward& a_;
  const Problem problem_;
  const Unit& unit_;
  const Common& common_;
  const Heads q_, k_, v_, o_, d_o_, dq_, dk_, dv_;
  const int keys_;  // of a block
  const int64_t spans_, parts_;
  Sizes sizes_;
  int64_t padded_length_;  // of the queries, as rows of dQ that a unit may write
  std::shared_ptr<Storage> partial_;
};

}  // namespace

void backward(const AttentionBackward& args, const Unit& unit) { Backward(args, unit).run(); }

}  // namespace rapt::kernels::cpu::attention
