#pragma once
// The tensors of one kernel call under test: random inputs, poisoned outputs, each in a storage of its own with guard
// bands around it, and a record of what must not change.
#include <rapt/base/random.hpp>
#include <support/compare.hpp>
#include <tensor/visit.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace rapt::testing {

/// How a tensor lies in memory. Each includes an odd offset except the first.
enum class Layout {
  plain,       ///< contiguous and aligned
  shifted,     ///< contiguous, misaligned
  padded,      ///< gaps between the rows and between all further axes
  transposed,  ///< the last two axes swapped in memory, with gaps
  spread,      ///< every second element
  mixed        ///< each tensor of the call another one
};
inline constexpr Layout kLayouts[] = {Layout::plain,      Layout::shifted, Layout::padded,
                                      Layout::transposed, Layout::spread,  Layout::mixed};
inline std::string to_string(Layout layout) {
  static const char* const names[] = {"plain", "shifted", "padded", "transposed", "spread", "mixed"};
  return names[size_t(layout)];
}

/// Which of these the contract of an operation allows for a tensor.
enum class Freedom { contiguous, rows, matrix, any };

struct TensorOptions {
  Freedom freedom = Freedom::contiguous;
  bool accumulate = false;              ///< outputs: begin with random values instead of NaN
  std::optional<DType> dtype = {};      ///< instead of the dtype of the workspace
  std::optional<DType> precision = {};  ///< outputs: judged by the error bound of this dtype instead of their own
  double scale = 1, shift = 0;          ///< values are scale * normal + shift
};

class Workspace {
 public:
  Workspace(DType dtype, Layout layout, uint64_t seed) : dtype_(dtype), layout_(layout), seed_(seed) {}

  DType dtype() const { return dtype_; }
  /// What stays in f32 beside bf16: gains, biases, master weights, losses.
  DType master() const { return dtype_ == DType::f64 ? DType::f64 : DType::f32; }
  /// Counted randomness for dropout and the like; the same in every layout.
  Philox random() { return {seed_, next_stream_++}; }

  Tensor input(const Shape& shape, const TensorOptions& options = {}) {
    const Tensor t = place(shape, options, 0xFF, "");
    randomise(t, options);
    return t;
  }
  /// i32 in [low, high).
  Tensor integers(const Shape& shape, int64_t low, int64_t high) {
    const Tensor t = place(shape, {.dtype = DType::i32}, 0xFF, "");
    const Philox philox = random();
    set_values(t, [&](int64_t n) { return double(low + philox.below(uint64_t(n), uint32_t(high - low))); });
    return t;
  }
  Tensor output(const std::string& name, const Shape& shape, const TensorOptions& options = {}) {
    const Tensor t = place(shape, options, 0xA5, name);
    if (options.accumulate)
      randomise(t, options);
    else
      set_values(t, [&](int64_t) { return is_floating(t.dtype()) ? std::nan("") : -77.0; });
    return t;
  }

  /// Would this layout differ from those before it in kLayouts, given the freedom of the tensors placed so far?
  bool distinguishes(Layout layout) const {
    return layout <= Layout::shifted || layout <= widest_ || (layout == Layout::mixed && widest_ > Layout::shifted);
  }

  /// Remembers the bytes of everything; called between building the arguments and running the kernel.
  void seal() {
    for (Entry& e : entries_) e.before.assign(e.storage->data(), e.storage->data() + e.storage->bytes());
  }
  /// Inputs, and what surrounds outputs, are as they were.
  void expect_nothing_else_changed() const {
    for (const Entry& e : entries_) {
      std::vector<std::byte> after(e.storage->data(), e.storage->data() + e.storage->bytes());
      if (!e.name.empty()) restore_elements(e, after);
      const auto [now, then] = std::mismatch(after.begin(), after.end(), e.before.begin());
      EXPECT_TRUE(now == after.end()) << (e.name.empty() ? "an input" : "what surrounds '" + e.name + "'")
                                      << " was overwritten: byte " << then - e.before.begin() << " of " << after.size()
                                      << ", shape " << rapt::to_string(e.tensor.shape());
    }
  }
  /// Every output is close to the one of the same name in `wanted`.
  void expect_outputs_like(const Workspace& wanted, double slack) const {
    ASSERT_EQ(entries_.size(), wanted.entries_.size());
    for (size_t i = 0; i < entries_.size(); ++i)
      if (!entries_[i].name.empty()) {
        const Tensor &got = entries_[i].tensor, &want = wanted.entries_[i].tensor;
        EXPECT_LE(relative_error(got, want), slack * error_bound(entries_[i].precision)) << "in " << entries_[i].name;
      }
  }
  /// Every output holds, byte for byte, what the one of the same name in `other` holds.
  bool outputs_equal(const Workspace& other) const {
    return std::equal(entries_.begin(), entries_.end(), other.entries_.begin(), other.entries_.end(),
                      [](const Entry& a, const Entry& b) {
                        return a.name.empty() ||
                               (a.storage->bytes() == b.storage->bytes() &&
                                !std::memcmp(a.storage->data(), b.storage->data(), a.storage->bytes()));
                      });
  }

 private:
  struct Entry {
    std::string name;  // empty for inputs
    std::shared_ptr<Storage> storage;
    Tensor tensor;
    DType precision;
    std::vector<std::byte> before;
  };

  static Layout widest_of(Freedom freedom) {
    static constexpr Layout widest[] = {Layout::shifted, Layout::padded, Layout::transposed, Layout::spread};
    return widest[size_t(freedom)];
  }

  Layout layout_of_next(Freedom freedom, int rank) const {
    const int limit = int(widest_of(freedom));
    Layout layout =
        Layout(layout_ == Layout::mixed ? int(entries_.size()) % (limit + 1) : std::min(int(layout_), limit));
    if (rank < 2 && layout == Layout::transposed) layout = Layout::shifted;
    if (rank < 1) layout = std::min(layout, Layout::shifted);
    return layout;
  }

  Tensor place(const Shape& shape, const TensorOptions& options, int background, const std::string& name) {
    const DType dtype = options.dtype.value_or(dtype_);
    const Layout layout = layout_of_next(options.freedom, shape.rank());
    widest_ = std::max(widest_, widest_of(options.freedom));
    Shape whole = shape;
    if (layout == Layout::padded || layout == Layout::transposed)
      for (int i = 0; i < shape.rank(); ++i) whole[i] += 1 + i % 3;
    if (layout == Layout::transposed) std::swap(whole[-1], whole[-2]);
    if (layout == Layout::spread) whole = whole.inserted(shape.rank(), 2);
    const int64_t lead = layout == Layout::plain ? kGuard : kGuard + 1 + 2 * int64_t(entries_.size() % 4);
    auto storage = Storage::allocate(size_t(lead + whole.numel() + kGuard) * size_of(dtype));
    std::memset(storage->data(), background, storage->bytes());
    Tensor t = Tensor::over(storage, lead, whole, dtype);
    if (layout == Layout::transposed) t = t.transpose(-1, -2);
    if (layout == Layout::spread) t = t.select(-1, 1);
    for (int i = 0; i < shape.rank(); ++i) t = t.narrow(i, t.size(i) - shape[i], shape[i]);
    entries_.push_back({name, storage, t, options.precision.value_or(dtype), {}});
    return t;
  }

  /// Standard normal; from a table, because making the numbers would take most of the time of the tests.
  double normal(uint64_t stream, uint64_t n) const {
    static const std::vector<double> table = [] {
      std::vector<double> values(1 << 16);
      for (size_t i = 0; i < values.size(); ++i) values[i] = Philox{1, 2}.normal(i);
      return values;
    }();
    return table[(Philox{seed_, stream}.block(0)[0] + n) % table.size()];
  }

  void randomise(const Tensor& t, const TensorOptions& options) {
    const uint64_t stream = random().stream;
    const bool integral = !is_floating(t.dtype());
    set_values(t, [&](int64_t n) {
      const double value = options.scale * normal(stream, uint64_t(n)) + options.shift;
      return integral ? std::round(value) : value;
    });
  }

  /// Puts the old contents of an output back, so that only what surrounds it can differ.
  static void restore_elements(const Entry& e, std::vector<std::byte>& bytes) {
    const size_t size = size_of(e.tensor.dtype());
    for_each_offset(e.tensor.shape(), {e.tensor.strides()}, [&](const std::array<int64_t, 1>& at) {
      const size_t begin = size_t(e.tensor.offset() + at[0]) * size;
      std::memcpy(bytes.data() + begin, e.before.data() + begin, size);
    });
  }

  static constexpr int64_t kGuard = 64;  // elements before and after; keeps the plain layout aligned

  DType dtype_;
  Layout layout_;
  uint64_t seed_;
  uint64_t next_stream_ = 1;
  Layout widest_ = Layout::plain;
  std::deque<Entry> entries_;
};

}  // namespace rapt::testing
