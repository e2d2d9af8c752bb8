#pragma once
// What the two drivers of streaming attention share: the sizes and the mask of a call, scratch memory, dropout bits.
#include <kernels/cpu/attention_unit.hpp>
#include <kernels/kernels.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rapt::kernels::cpu::attention {

/// x[b, t, head, :], f32 or bf16, the last axis unit.
struct Heads {
  std::byte* data;
  int64_t batch, position, head;
  int columns, element_size;
  explicit Heads(const Tensor& x)
      : data(x.raw()),
        batch(x.stride(0)),
        position(x.stride(1)),
        head(x.stride(2)),
        columns(int(x.size(3))),
        element_size(int(size_of(x.dtype()))) {}
  /// Positions t .. t + count of one head.
  Rows rows(int64_t b, int64_t t, int64_t h, int64_t count) const {
    return {data + (b * batch + t * position + h * head) * element_size, position, int(count), columns};
  }
};

/// Sizes, mask and dropout of a call.
struct Problem {
  int64_t batch, query_length, key_length, heads, key_heads;
  int d_k, d_v;
  const int32_t* lengths;
  const float* slopes;
  bool causal, bf16;
  float scale, factor;  ///< factor = scale / ln 2
  float keep_scale;
  uint32_t drop_below;
  Philox random;

  template <class Args>
  explicit Problem(const Args& a)
      : batch(a.q.size(0)),
        query_length(a.q.size(1)),
        key_length(a.k.size(1)),
        heads(a.q.size(2)),
        key_heads(a.k.size(2)),
        d_k(int(a.q.size(3))),
        d_v(int(a.v.size(3))),
        lengths(a.mask.lengths ? a.mask.lengths.template data<int32_t>() : nullptr),
        slopes(a.mask.slopes ? a.mask.slopes.template data<float>() : nullptr),
        causal(a.mask.causal),
        bf16(a.q.dtype() == DType::bf16),
        scale(float(a.scale)),
        factor(float(a.scale * std::numbers::log2e)),
        keep_scale(float(1.0 / (1.0 - double(a.p)))),
        drop_below(uint32_t(std::lround(65536.0 * double(a.p)))),
        random(a.random) {}

  int64_t group() const { return heads / key_heads; }
  int64_t keys(int64_t b) const { return lengths ? lengths[b] : key_length; }
  /// How much further a query stands than the key of the same index.
  int64_t offset() const { return key_length - query_length; }
  /// Keys 0 .. visible - 1 are those that query i of batch entry b may look at.
  int64_t visible(int64_t b, int64_t i) const {
    return causal ? std::clamp<int64_t>(i + offset() + 1, 0, keys(b)) : keys(b);
  }
};

/// Hands out 64-byte aligned parts of a block, or, without one, only counts.
class Carver {
 public:
  explicit Carver(std::byte* block = nullptr) : block_(block) {}
  template <class T>
  void take(T*& part, int64_t count) {
    if (block_) part = reinterpret_cast<T*>(block_ + used_);
    used_ += (size_t(count) * sizeof(T) + 63) / 64 * 64;
  }
  size_t used() const { return used_; }

 private:
  std::byte* block_;
  size_t used_ = 0;
};

/// Memory for Buffers, which lays out its pointers in `place(Carver&, args...)`.
template <class Buffers>
class Scratch {
 public:
  template <class... Args>
  explicit Scratch(const Args&... args) {
    Carver count;
    buffers_.place(count, args...);
    storage_ = Storage::allocate(count.used());
    Carver carver(storage_->data());
    buffers_.place(carver, args...);
  }
  Buffers& operator*() { return buffers_; }

 private:
  std::shared_ptr<Storage> storage_;
  Buffers buffers_{};
};

/// Between these a thread may use the unit.
class UnitSession {
 public:
  explicit UnitSession(const Unit& unit) : unit_(unit) { unit_.enter(); }
  ~UnitSession() { unit_.leave(); }
  UnitSession(const UnitSession&) = delete;
  UnitSession& operator=(const UnitSession&) = delete;

 private:
  const Unit& unit_;
};

/// Fetches the rows of the next task while this one computes: heads lie far apart, where no hardware looks ahead. A few
/// cache lines a step, because only so many can be on their way at once.
class Prefetcher {
 public:
  void begin(int steps) {
    count_ = at_ = row_ = 0;
    lines_ = 0;
    steps_ = steps;
  }
  void add(const Rows& rows, int element_size) {
    const int bytes = rows.columns * element_size;
    parts_[count_++] = {static_cast<const char*>(rows.data), rows.stride * element_size, rows.rows, bytes};
    lines_ += rows.rows * ((bytes + 63) / 64);
  }
  void step() {
    for (int budget = lines_ / steps_ + 1; budget > 0 && at_ < count_;) {
      const Part& part = parts_[at_];
      const char* row = part.data + row_ * part.stride;
      for (int byte = 0; byte < part.bytes; byte += 64, --budget) __builtin_prefetch(row + byte, 0, 2);
      if (++row_ == part.rows) ++at_, row_ = 0;
    }
  }

 private:
  struct Part {
    const char* data;
    int64_t stride;
    int rows, bytes;
  };
  Part parts_[8];
  int count_ = 0, at_ = 0, row_ = 0, lines_ = 0, steps_ = 1;
};

/// A block of dropout bits: which weights of some rows (queries) and columns (keys) are kept.
class KeepBits {
 public:
  static constexpr int kMaxRows = 64, kMaxColumns = 128;
  /// Rows of kKeepBytes, a bit a column; valid until the next call.
  const uint8_t* rows(const Problem& p, int64_t b, int64_t head, int64_t i, int rows, int64_t j, int columns);
  /// The same with the keys as rows and the queries as columns, at most 64 of each; j is a multiple of 8.
  const uint8_t* transposed(const Problem& p, int64_t b, int64_t head, int64_t i, int rows, int64_t j, int columns);
  /// Forgets what was drawn; to be called before the first use, and when the problem changes.
  void reset() { drawn_ = -1; }

 private:
  void extract(uint64_t bit, int row);
  int64_t drawn_;  // (b, head, i) whose rows over all keys are in rows_, or -1
  alignas(64) uint8_t raw_[(kMaxRows + 2) * 16 + 16];
  alignas(64) uint8_t rows_[kMaxRows * kKeepBytes + 8];
  alignas(64) uint8_t transposed_[kMaxRows * kKeepBytes];
};

void forward(const AttentionForward& args, const Unit& unit);
/// For at most this many queries: reads keys and values once, where they lie.
constexpr int kDecodeQueries = 4;
void decode(const AttentionForward& args);
void backward(const AttentionBackward& args, const Unit& unit);

}  // namespace rapt::kernels::cpu::attention
