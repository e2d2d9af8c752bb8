#pragma once
#include <rapt/tensor/device.hpp>
#include <rapt/tensor/dtype.hpp>
#include <rapt/tensor/memory.hpp>
#include <rapt/tensor/shape.hpp>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace rapt {

struct Node;      // autograd: what made a tensor
struct GradSlot;  // autograd: where its gradient gathers

/// Which elements of its base a view covers: those whose flat index modulo `period` lies in [begin, end).
/// {1, 0, 1} is all of them; period 0 means "some, in no regular pattern".
struct Region {
  int64_t period = 1, begin = 0, end = 1;
  bool operator==(const Region&) const = default;
  bool whole() const { return period == 1; }
};

/// How a tensor hangs on the tape. Views share it, so reshaping, transposing and slicing cost nothing in the backward
/// pass: the gradient of a view is the same view of the gradient.
struct GradHook {
  std::shared_ptr<Node> producer;  ///< null for a leaf
  std::shared_ptr<GradSlot> slot;  ///< null when no gradient is wanted
  Region region;
};

/// Shape, strides and place of a view, without its memory.
struct Geometry {
  Shape shape;
  Strides strides;
  int64_t offset = 0;
  bool is_contiguous() const;
};

/// A strided view of reference-counted memory, with value semantics of a handle: copies share the contents.
class Tensor {
 public:
  Tensor() = default;  ///< undefined; stands for "absent" in optional arguments
  static Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = {});
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = {});
  static Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
  static Tensor over(std::shared_ptr<Storage> storage, int64_t offset, const Shape& shape, DType dtype);
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape);
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape) {
    return from(std::span<const T>(values), shape);
  }

  bool defined() const { return impl_ != nullptr; }
  explicit operator bool() const { return defined(); }
  const Shape& shape() const { return impl().shape; }
  const Strides& strides() const { return impl().strides; }
  int64_t size(int axis) const { return shape()[axis]; }
  int64_t stride(int axis) const { return strides()[axis]; }
  int rank() const { return shape().rank(); }
  int64_t numel() const { return shape().numel(); }
  DType dtype() const { return impl().dtype; }
  Device device() const { return storage().device(); }
  Storage& storage() const { return *impl().storage; }
  const std::shared_ptr<Storage>& shared_storage() const { return impl().storage; }
  int64_t offset() const { return impl().offset; }  ///< of the first element, in elements
  bool is_contiguous() const;

  std::byte* raw() const { return storage().data() + size_t(offset()) * size_of(dtype()); }
  /// Typed access; throws DTypeError when T is not what the tensor holds. After writing to a weight this way, call
  /// storage().touch(), or products keep using its packed form.
  template <class T>
  T* data() const {
    check_dtype(dtype_of<T>);
    return reinterpret_cast<T*>(raw());
  }
  double at(std::initializer_list<int64_t> index) const;  ///< one element, any dtype; slow
  double item() const;                                    ///< the only element
  std::vector<double> to_vector() const;                  ///< all elements in order, any dtype

  // Views. The gradient flows through each of them.
  Tensor view(const Shape& shape) const;  ///< same elements in another shape; one size may be -1
  Tensor transpose(int a, int b) const;
  Tensor narrow(int axis, int64_t begin, int64_t length) const;
  Tensor select(int axis, int64_t index) const;  ///< narrow to one and drop the axis

  Geometry geometry() const { return {shape(), strides(), offset()}; }
  /// The view of this contiguous tensor that `view` is of another one which starts at `base`.
  Tensor seen_as(const Geometry& view, int64_t base) const;

  // Copies, outside the tape.
  Tensor to(DType dtype) const;
  Tensor contiguous() const;                   ///< itself when it is already
  void copy_from(const Tensor& source) const;  ///< same shape, any dtype and strides
  void fill(double value) const;

  const std::string& name() const { return impl().name; }
  Tensor& set_name(std::string name);

  const GradHook& hook() const { return impl().hook; }
  GradHook& hook() { return impl().hook; }
  bool requires_grad() const { return impl_ && impl_->hook.slot != nullptr; }
  /// The same handle moved onto other memory of the same shape: how parameters enter their flat buffer.
  void rebase(std::shared_ptr<Storage> storage, int64_t offset);

 private:
  struct Impl {
    std::shared_ptr<Storage> storage;
    int64_t offset = 0;
    Shape shape;
    Strides strides;
    DType dtype = DType::f32;
    GradHook hook;
    std::string name;
  };
  Impl& impl() const;
  Tensor make_view(const Shape& shape, const Strides& strides, int64_t offset, const Region& region) const;
  void check_dtype(DType wanted) const;
  std::shared_ptr<Impl> impl_;
};

/// Several lines of numbers for people, at most `edge` rows and columns from each side.
std::string to_string(const Tensor& tensor, int precision = 4, int edge = 4);

}  // namespace rapt
