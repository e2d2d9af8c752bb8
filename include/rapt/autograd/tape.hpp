#pragma once
#include <rapt/tensor/tensor.hpp>

#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace rapt {

// The tape is eager: an operation computes its result at once and, when a gradient may be wanted, leaves a Node that
// remembers what the backward pass needs. There is no graph to compile; a shape error throws on the user's own line.

/// Where a backward kernel puts a gradient, and whether it adds to what is there. The first writer does not
/// accumulate, so no gradient is ever cleared beforehand and no addition nodes exist.
struct GradTarget {
  Tensor grad;
  bool accumulate = false;
};

/// Where the gradient of one tensor (and of all its views) gathers.
struct GradSlot {
  Shape shape;
  DType dtype = DType::f32;
  Device device;
  int64_t base_offset = 0;  ///< of the tensor in its storage, so that views find their place in `buffer`
  Tensor buffer;            ///< undefined until the first writer comes
  bool pinned = false;      ///< `buffer` lives in a flat buffer of gradients and stays

  bool written() const { return !written_.empty(); }
  /// Claims the part that a view covers for one more writer.
  GradTarget claim(const Geometry& view, const Region& region);
  /// Takes `grad` over as the buffer when nothing was written yet. False: the caller has to copy or add.
  bool adopt(const Tensor& grad);
  /// After this every element is defined: parts that no writer covered become zero.
  void complete();
  /// Forgets what was written; the next writer starts afresh.
  void clear();

 private:
  void zero_gaps();
  std::vector<Region> written_;
};

/// Do two views of one tensor surely share no element?
bool disjoint(const Region& a, const Region& b);

class Grads;

/// A primitive's memory of its forward pass: what it saved, and one `run` that calls the backward kernels.
struct Backward {
  virtual ~Backward() = default;
  virtual const char* name() const = 0;
  virtual void run(Grads& g) = 0;
};

/// One recorded operation.
struct Node {
  /// An input: the view that the operation read, and where its gradient goes. Holds no data.
  struct Edge {
    std::shared_ptr<Node> producer;
    std::shared_ptr<GradSlot> slot;  ///< null: no gradient wanted
    Geometry view;
    Region region;
    std::string name;
  };
  uint64_t order = 0;  ///< position on the tape
  std::unique_ptr<Backward> backward;
  std::vector<Edge> inputs;
  std::vector<std::shared_ptr<GradSlot>> outputs;
  uint64_t visit = 0;

  ~Node();
};

/// What a running Backward sees: the gradients of its outputs, and targets for those of its inputs.
class Grads {
 public:
  explicit Grads(Node& node) : node_(node) {}
  /// Gradient of output i; undefined when no gradient reached it (only with several outputs).
  Tensor dy(int output = 0) const;
  bool wants(int input) const { return node_.inputs[size_t(input)].slot != nullptr; }
  /// Where to put the gradient of an input that is wanted. Claiming it obliges to write all of it.
  GradTarget into(int input) const;
  /// Hands `grad` on without a copy where possible. False: write through `into` instead.
  bool pass(int input, const Tensor& grad) const;

 private:
  Node& node_;
  mutable bool passed_ = false;
};

/// Is anything recorded on this thread, and would these inputs want it?
bool grad_enabled();
bool wants_grad(std::initializer_list<const Tensor*> inputs);

/// Puts one operation on the tape. Call it with the outputs after they are computed; does nothing when no input wants a
/// gradient. In non-finite detection it checks the outputs.
void record(std::unique_ptr<Backward> backward, std::span<const Tensor> inputs, std::span<Tensor> outputs);

template <std::derived_from<Backward> B>
Tensor record(B backward, std::initializer_list<Tensor> inputs, Tensor output) {
  record(std::make_unique<B>(std::move(backward)), std::span(inputs.begin(), inputs.size()), std::span(&output, 1));
  return output;
}

/// Nothing is recorded while one of these lives on this thread.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

/// While one of these lives on this thread, every recorded result and every gradient is searched for NaN and infinity;
/// the first bad one throws NonFiniteError with the operation and the names of its inputs.
class DetectNonFinite {
 public:
  DetectNonFinite();
  ~DetectNonFinite();
  DetectNonFinite(const DetectNonFinite&) = delete;
  DetectNonFinite& operator=(const DetectNonFinite&) = delete;

 private:
  bool before_;
};

/// Marks a leaf: its gradient gathers in `grad(t)` over all backward passes until `zero_grad(t)`.
Tensor& require_grad(Tensor& t);
/// The gathered gradient; zeros when none has reached `t`.
Tensor grad(const Tensor& t);
void zero_grad(const Tensor& t);

/// The same values with no way back. The only operation that cuts a gradient.
Tensor stop_gradient(const Tensor& t);

/// Runs the tape backwards from a scalar. What each operation saved is freed as soon as it has run.
void backward(const Tensor& loss);
/// The same from any tensor, with its gradient given.
void backward(const Tensor& y, const Tensor& dy);

/// y = f(inputs) without keeping what f saves: f runs again in the backward pass. f must compute the same again (draw
/// no fresh randomness), and may use what is on the tape only through `inputs`; leaves, such as parameters, it may
/// capture. Memory for time.
Tensor checkpoint(std::function<Tensor(std::span<const Tensor>)> f, std::vector<Tensor> inputs);

}  // namespace rapt
