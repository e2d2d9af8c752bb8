#include <base/fail.hpp>
#include <rapt/tensor/tensor.hpp>
#include <tensor/visit.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace rapt {

Tensor::Impl& Tensor::impl() const {
  require<Error>(impl_ != nullptr, "[tensor] used before it was given a value");
  return *impl_;
}

namespace {

/// The product is checked factor by factor: hostile files and callers name sizes whose product wraps around.
int64_t checked_numel(const Shape& shape, int64_t unit = 1) {
  int64_t n = unit;
  for (int64_t d : shape)
    require<ShapeError>(d >= 0 && !__builtin_mul_overflow(n, std::max<int64_t>(d, 1), &n),
                        "[tensor] shape {} is not possible", to_string(shape));
  return shape.numel() == 0 ? 0 : n;
}

}  // namespace

Tensor Tensor::over(std::shared_ptr<Storage> storage, int64_t offset, const Shape& shape, DType dtype) {
  for (int64_t d : shape) require<ShapeError>(d >= 0, "[tensor] negative size in shape {}", to_string(shape));
  require<Error>(storage != nullptr, "[tensor] of shape {} over no storage", to_string(shape));
  const int64_t elements = checked_numel(shape);
  const int64_t room = int64_t(storage->bytes() / size_of(dtype));
  require<ShapeError>(offset >= 0 && offset <= room && elements <= room - offset,
                      "[tensor] shape {} of {} from element {} on does not fit in a storage of {} bytes",
                      to_string(shape), to_string(dtype), offset, storage->bytes());
  Tensor t;
  t.impl_ = std::make_shared<Impl>();
  t.impl_->storage = std::move(storage);
  t.impl_->offset = offset;
  t.impl_->shape = shape;
  t.impl_->strides = contiguous_strides(shape);
  t.impl_->dtype = dtype;
  return t;
}

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  const int64_t bytes = checked_numel(shape, int64_t(size_of(dtype)));
  return over(Storage::allocate(size_t(bytes), device), 0, shape, dtype);
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  Tensor t = empty(shape, dtype, device);
  std::memset(t.raw(), 0, size_t(t.numel()) * size_of(dtype));
  return t;
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype) {
  Tensor t = empty(shape, dtype);
  t.fill(value);
  return t;
}

template <class T>
Tensor Tensor::from(std::span<const T> values, const Shape& shape) {
  require<ShapeError>(int64_t(values.size()) == shape.numel(), "[tensor] {} values for shape {}", values.size(),
                      to_string(shape));
  Tensor t = empty(shape, dtype_of<T>);
  if (!values.empty()) std::memcpy(t.raw(), values.data(), values.size_bytes());
  return t;
}
template Tensor Tensor::from(std::span<const double>, const Shape&);
template Tensor Tensor::from(std::span<const float>, const Shape&);
template Tensor Tensor::from(std::span<const BFloat16>, const Shape&);
template Tensor Tensor::from(std::span<const Float16>, const Shape&);
template Tensor Tensor::from(std::span<const int8_t>, const Shape&);
template Tensor Tensor::from(std::span<const int32_t>, const Shape&);
template Tensor Tensor::from(std::span<const int64_t>, const Shape&);

void Tensor::check_dtype(DType wanted) const {
  require<DTypeError>(dtype() == wanted, "[tensor] holds {}, read as {}", to_string(dtype()), to_string(wanted));
}

bool Geometry::is_contiguous() const {
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

bool Tensor::is_contiguous() const { return geometry().is_contiguous(); }

Tensor Tensor::make_view(const Shape& shape, const Strides& strides, int64_t offset, const Region& region) const {
  Tensor t;
  t.impl_ = std::make_shared<Impl>(impl());
  t.impl_->shape = shape;
  t.impl_->strides = strides;
  t.impl_->offset = offset;
  t.impl_->hook.region = region;
  return t;
}

Tensor Tensor::view(const Shape& wanted) const {
  Shape target = wanted;
  int64_t known = 1;
  int open = -1;
  for (int i = 0; i < target.rank(); ++i) {
    if (target[i] == -1) {
      require<ShapeError>(open < 0, "[view] more than one -1 in {}", to_string(wanted));
      open = i;
    } else {
      require<ShapeError>(target[i] >= 0 && !__builtin_mul_overflow(known, target[i], &known),
                          "[view] {} is not a possible shape", to_string(wanted));
    }
  }
  require<ShapeError>(open < 0 || known > 0, "[view] {} as {}: beside a size of 0 the -1 could be anything",
                      to_string(shape()), to_string(wanted));
  if (open >= 0 && numel() % known == 0) target[open] = numel() / known;
  require<ShapeError>(target.numel() == numel(), "[view] {} has {} elements, {} has another number", to_string(shape()),
                      numel(), to_string(wanted));
  if (numel() == 0) return make_view(target, contiguous_strides(target), offset(), hook().region);
  // Merge axes that are adjacent in memory into runs; each axis of the target must then divide the run it falls in.
  struct Run {
    int64_t size, stride;
  };
  std::array<Run, Shape::kMaxRank + 1> runs{Run{1, 1}};
  size_t last = 0;
  for (int a = 0; a < rank(); ++a) {
    if (size(a) == 1) continue;
    if (last > 0 && runs[last].stride == size(a) * stride(a))
      runs[last] = {runs[last].size * size(a), stride(a)};
    else
      runs[++last] = {size(a), stride(a)};
  }
  Strides strides = target;
  auto [left, step] = runs[last];
  for (int i = target.rank() - 1; i >= 0; --i) {
    if (target[i] != 1 && left == 1) {
      --last;
      left = runs[last].size;
      step = runs[last].stride;
    }
    require<ShapeError>(left % target[i] == 0,
                        "[view] {} with strides {} cannot be seen as {}: call contiguous() first", to_string(shape()),
                        to_string(this->strides()), to_string(wanted));
    strides[i] = step;
    step *= target[i];
    left /= target[i];
  }
  return make_view(target, strides, offset(), hook().region);
}

Tensor Tensor::transpose(int a, int b) const {
  Shape s = shape();
  Strides st = strides();
  std::swap(s[a], s[b]);
  std::swap(st[a], st[b]);
  return make_view(s, st, offset(), hook().region);
}

Tensor Tensor::narrow(int axis, int64_t begin, int64_t length) const {
  const int a = shape().axis(axis);
  // Subtracted, not added: the sum of two hostile numbers wraps around.
  require<IndexError>(begin >= 0 && length >= 0 && length <= size(a) && begin <= size(a) - length,
                      "[narrow] {} elements from {} on along axis {} of {}", length, begin, a, to_string(shape()));
  Region region = hook().region;
  if (length != size(a)) {
    const bool regular = region.whole() && is_contiguous() && length > 0;
    const int64_t inner = stride(a);
    region = regular ? Region{size(a) * inner, begin * inner, (begin + length) * inner} : Region{0, 0, 0};
  }
  return make_view(shape().with(a, length), strides(), offset() + begin * stride(a), region);
}

Tensor Tensor::select(int axis, int64_t index) const {
  const Tensor one = narrow(axis, index, 1);
  return one.make_view(one.shape().without(axis), one.strides().without(axis), one.offset(), one.hook().region);
}

Tensor Tensor::seen_as(const Geometry& view, int64_t base) const {
  return make_view(view.shape, view.strides, offset() + view.offset - base, Region{});
}

double Tensor::at(std::initializer_list<int64_t> index) const {
  require<IndexError>(int(index.size()) == rank(), "[tensor] {} indices for shape {}", index.size(),
                      to_string(shape()));
  int64_t position = 0;
  int axis = 0;
  for (int64_t i : index) {
    require<IndexError>(i >= 0 && i < size(axis), "[tensor] index {} on axis {} of {}", i, axis, to_string(shape()));
    position += i * stride(axis++);
  }
  return visit_dtype(dtype(), [&]<class T>(TypeTag<T>) { return to_double(data<T>()[position]); });
}

double Tensor::item() const {
  require<ShapeError>(numel() == 1, "[item] shape {} holds {} elements, not one", to_string(shape()), numel());
  return visit_dtype(dtype(), [&]<class T>(TypeTag<T>) { return to_double(*data<T>()); });
}

std::vector<double> Tensor::to_vector() const {
  std::vector<double> values;
  values.reserve(size_t(numel()));
  visit_dtype(dtype(), [&]<class T>(TypeTag<T>) {
    const T* base = data<T>();
    for_each_offset(shape(), {strides()},
                    [&](const std::array<int64_t, 1>& at) { values.push_back(to_double(base[at[0]])); });
  });
  return values;
}

Tensor Tensor::to(DType wanted) const {
  if (wanted == dtype()) return *this;
  Tensor t = empty(shape(), wanted, device());
  t.copy_from(*this);
  t.impl_->name = name();
  return t;
}

Tensor Tensor::contiguous() const {
  if (is_contiguous()) return *this;
  Tensor t = empty(shape(), dtype(), device());
  t.copy_from(*this);
  return t;
}

void Tensor::copy_from(const Tensor& source) const {
  require<ShapeError>(source.shape() == shape(), "[copy] from {} to {}", to_string(source.shape()), to_string(shape()));
  storage().touch();
  if (source.dtype() == dtype() && is_contiguous() && source.is_contiguous()) {
    std::memmove(raw(), source.raw(), size_t(numel()) * size_of(dtype()));
    return;
  }
  visit_dtype(dtype(), [&]<class To>(TypeTag<To>) {
    visit_dtype(source.dtype(), [&]<class From>(TypeTag<From>) {
      To* to = data<To>();
      const From* from = source.data<From>();
      for_each_offset(shape(), {strides(), source.strides()},
                      [&](const std::array<int64_t, 2>& at) { to[at[0]] = convert<To>(from[at[1]]); });
    });
  });
}

void Tensor::fill(double value) const {
  storage().touch();
  visit_dtype(dtype(), [&]<class T>(TypeTag<T>) {
    T* to = data<T>();
    const T v = convert<T>(value);
    for_each_offset(shape(), {strides()}, [&](const std::array<int64_t, 1>& at) { to[at[0]] = v; });
  });
}

Tensor& Tensor::set_name(std::string name) {
  impl().name = std::move(name);
  return *this;
}

void Tensor::rebase(std::shared_ptr<Storage> storage, int64_t offset) {
  require<ShapeError>(is_contiguous() && size_t(offset + numel()) * size_of(dtype()) <= storage->bytes(),
                      "[tensor] {} does not fit at element {} of a storage of {} bytes", to_string(shape()), offset,
                      storage->bytes());
  impl().storage = std::move(storage);
  impl().offset = offset;
}

namespace {
void print_rows(std::string& out, const Tensor& t, int precision, int edge, int indent) {
  const int64_t n = t.size(0);
  out += "[";
  for (int64_t i = 0; i < n; ++i) {
    if (n > 2 * edge && i == edge) {
      out += t.rank() == 1 ? "... " : "\n" + std::string(size_t(indent) + 1, ' ') + "...";
      i = n - edge;
    }
    if (t.rank() == 1) {
      const double v = t.at({i});
      out += is_floating(t.dtype()) ? fmt::format("{:.{}f}", v, precision) : fmt::format("{:.0f}", v);
      if (i + 1 < n) out += ", ";
    } else {
      if (i) out += "\n" + std::string(size_t(indent) + 1, ' ');
      print_rows(out, t.select(0, i), precision, edge, indent + 1);
    }
  }
  out += "]";
}
}  // namespace

std::string to_string(const Tensor& t, int precision, int edge) {
  if (!t.defined()) return "undefined";
  if (t.rank() == 0) return fmt::format("{:.{}f}", t.item(), precision);
  std::string out;
  print_rows(out, t, precision, edge, 0);
  return out;
}

}  // namespace rapt
