#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace rapt {

/// Up to six sizes (or strides), without a heap allocation.
class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  /// `shape[-1]` is the last; out of range throws IndexError.
  int64_t operator[](int axis) const { return dims_[size_t(checked(axis))]; }
  int64_t& operator[](int axis) { return dims_[size_t(checked(axis))]; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  int64_t numel() const;
  bool operator==(const Shape& other) const;

  Shape with(int axis, int64_t size) const;  ///< one size replaced
  Shape without(int axis) const;             ///< one axis dropped
  Shape inserted(int axis, int64_t size) const;
  /// Axis counted from the end when negative, checked.
  int axis(int a) const { return checked(a); }

 private:
  int checked(int axis) const;
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

using Strides = Shape;  ///< in elements

Strides contiguous_strides(const Shape& shape);
std::string to_string(const Shape& shape);  ///< "[8, 16]"

}  // namespace rapt
