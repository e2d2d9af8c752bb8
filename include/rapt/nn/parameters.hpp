#pragma once
#include <rapt/tensor/tensor.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace rapt::nn {

/// How a fresh parameter is drawn. Each value depends on (seed, name, index) alone.
struct Init {
  enum class Kind { constant, normal, uniform } kind = Kind::constant;
  double scale = 0;  ///< the constant, the standard deviation, or the bound of (-bound, bound)

  static Init zeros() { return {Kind::constant, 0}; }
  static Init ones() { return {Kind::constant, 1}; }
  static Init normal(double deviation) { return {Kind::normal, deviation}; }
  static Init uniform(double bound) { return {Kind::uniform, bound}; }
  /// Uniform with variance 2 / (fan_in + fan_out) [Glorot 2010], as the paper's reference code draws its matrices.
  static Init xavier(int64_t fan_in, int64_t fan_out);
};

/// A name and the number of rows it has in a parameter that several names share.
struct Part {
  std::string name;
  int64_t rows = 0;
};

/// All parameters of a model, by name. Layers ask for them through a Scope while they are constructed; whether a
/// parameter is drawn or comes from `source` is decided here, so the same constructors initialise and load.
/// After `freeze_layout` they live in one flat buffer (and their gradients in another), in the order of construction:
/// one optimiser kernel, one norm, one all-reduce serve them all.
class Parameters {
 public:
  /// Returns the tensor of that name, or an undefined one.
  using Source = std::function<Tensor(const std::string& name)>;

  struct Entry {
    std::string name;
    Tensor tensor;  ///< a view of the flat buffer
  };

  /// `dtype` is f32, or f64 for gradient checks; activations in bf16 are a matter of the Context.
  explicit Parameters(uint64_t seed = 1, DType dtype = DType::f32);
  Parameters(Source source, DType dtype);
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  /// One parameter, made of named parts that follow each other along the first axis: `q`, `k` and `v` can be one matrix
  /// for the product and three names in the file.
  Tensor make(const std::string& path, std::span<const Part> parts, const Shape& shape, const Init& init);

  /// Moves everything into flat buffers and marks it as wanting gradients. Called once, by the model, when all layers
  /// stand. With a source: throws FileError that lists what is missing or has another shape.
  void freeze_layout();

  const std::vector<Entry>& entries() const { return entries_; }  ///< one a name, parts apart
  Tensor find(const std::string& name) const;                     ///< throws IndexError when there is none
  int64_t count() const;                                          ///< numbers, without the padding between parameters
  DType dtype() const { return dtype_; }

  const Tensor& weights() const { return weights_; }  ///< flat [n]
  Tensor grads() const;                               ///< flat [n]; zero where no gradient arrived
  void zero_grad() const;
  /// Where each parameter lies in the flat buffer, as rows x columns; a vector has one column.
  struct Range {
    int64_t begin, rows, columns;
    int64_t size() const { return rows * columns; }
    bool is_matrix() const { return columns > 1; }  ///< gains and biases are not, and so escape weight decay
  };
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  struct Whole {
    Tensor tensor;
    size_t first_entry, entries;
  };
  Tensor load(const std::string& name, const Shape& shape);
  uint64_t seed_ = 1;
  Source source_;
  DType dtype_ = DType::f32;
  std::vector<Whole> wholes_;
  std::vector<Entry> entries_;
  std::vector<Range> ranges_;
  std::unordered_set<std::string> names_;
  std::vector<std::string> complaints_;
  Tensor weights_, grads_;
};

/// A path in the parameters: `scope / "decoder" / 0 / "cross"` names "decoder.0.cross".
class Scope {
 public:
  explicit Scope(Parameters& parameters, std::string path = "") : parameters_(&parameters), path_(std::move(path)) {}
  Scope operator/(const std::string& name) const;
  Scope operator/(int64_t index) const { return *this / std::to_string(index); }
  const std::string& path() const { return path_; }

  Tensor parameter(const std::string& name, const Shape& shape, const Init& init) const;
  /// See Parameters::make; each part is called path.part.name.
  Tensor parameter(std::span<const Part> parts, const std::string& name, const Shape& shape, const Init& init) const;

 private:
  Parameters* parameters_;
  std::string path_;
};

}  // namespace rapt::nn
