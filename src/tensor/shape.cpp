#include <base/fail.hpp>
#include <rapt/tensor/shape.hpp>

#include <algorithm>

namespace rapt {

Shape::Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) : rank_(int(dims.size())) {
  require<ShapeError>(dims.size() <= size_t(kMaxRank), "[shape] {} axes: at most {} are supported", dims.size(),
                      kMaxRank);
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

int Shape::checked(int axis) const {
  const int a = axis < 0 ? axis + rank_ : axis;
  require<IndexError>(a >= 0 && a < rank_, "[shape] axis {} of a tensor with {} axes", axis, rank_);
  return a;
}

int64_t Shape::numel() const {
  int64_t n = 1;
  for (int64_t d : *this) n *= d;
  return n;
}

bool Shape::operator==(const Shape& other) const {
  return rank_ == other.rank_ && std::equal(begin(), end(), other.begin());
}

Shape Shape::with(int axis, int64_t size) const {
  Shape s = *this;
  s[axis] = size;
  return s;
}

Shape Shape::without(int axis) const {
  const int a = checked(axis);
  Shape s;
  for (int i = 0; i < rank_; ++i)
    if (i != a) s.dims_[size_t(s.rank_++)] = dims_[size_t(i)];
  return s;
}

Shape Shape::inserted(int axis, int64_t size) const {
  require<ShapeError>(rank_ < kMaxRank, "[shape] no room for a further axis in {}", to_string(*this));
  Shape s;
  s.rank_ = rank_ + 1;
  const int a = axis < 0 ? axis + s.rank_ : axis;
  require<IndexError>(a >= 0 && a < s.rank_, "[shape] axis {} of a tensor with {} axes", axis, s.rank_);
  for (int i = 0, j = 0; i < s.rank_; ++i) s.dims_[size_t(i)] = i == a ? size : dims_[size_t(j++)];
  return s;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace rapt
