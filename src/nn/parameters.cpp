#include <base/fail.hpp>
#include <rapt/autograd/tape.hpp>
#include <rapt/base/random.hpp>
#include <rapt/nn/parameters.hpp>
#include <tensor/visit.hpp>

#include <cmath>
#include <set>

namespace rapt::nn {
namespace {

constexpr int64_t kAlignment = 16;  // elements: every parameter starts on a cache line

void draw(const Tensor& t, const Init& init, uint64_t seed) {
  if (init.kind == Init::Kind::constant) return t.fill(init.scale);
  const Philox random{seed, 0};
  visit_dtype(t.dtype(), [&]<class T>(TypeTag<T>) {
    T* values = t.data<T>();
    for (int64_t n = 0, count = t.numel(); n < count; ++n) {
      const double unit =
          init.kind == Init::Kind::normal ? random.normal(uint64_t(n)) : 2.0 * random.uniform(uint64_t(n)) - 1.0;
      values[n] = convert<T>(init.scale * unit);
    }
  });
}

}  // namespace

Init Init::xavier(int64_t fan_in, int64_t fan_out) { return uniform(std::sqrt(6.0 / double(fan_in + fan_out))); }

Parameters::Parameters(uint64_t seed, DType dtype) : seed_(seed), dtype_(dtype) {
  require<DTypeError>(dtype == DType::f32 || dtype == DType::f64, "[parameters] as {}: f32 or f64 is needed",
                      to_string(dtype));
}

Parameters::Parameters(Source source, DType dtype) : Parameters(1, dtype) { source_ = std::move(source); }

Tensor Parameters::load(const std::string& name, const Shape& shape) {
  Tensor found;
  try {
    found = source_(name);
  } catch (const FileError& error) {
    complaints_.push_back(error.what());
    return {};
  }
  if (!found) {
    complaints_.push_back(fmt::format("'{}' {} is missing", name, to_string(shape)));
    return {};
  }
  if (!(found.shape() == shape)) {
    complaints_.push_back(
        fmt::format("'{}' has shape {}, the model needs {}", name, to_string(found.shape()), to_string(shape)));
    return {};
  }
  if (!is_floating(found.dtype())) {
    complaints_.push_back(fmt::format("'{}' holds {}, a floating type is needed", name, to_string(found.dtype())));
    return {};
  }
  return found;
}

Tensor Parameters::make(const std::string& path, std::span<const Part> parts, const Shape& shape, const Init& init) {
  require<Error>(!weights_, "[parameters] '{}' is asked for after the layout was frozen", path);
  for (int64_t size : shape)
    require<ConfigError>(size > 0, "[parameters] '{}' would have shape {}: every size must be at least 1", path,
                         to_string(shape));
  int64_t rows = 0;
  for (const Part& part : parts) {
    rows += part.rows;
    require<Error>(!names_.contains(part.name), "[parameters] two layers claim the name '{}'", part.name);
  }
  require<ShapeError>(rows == shape[0], "[parameters] the parts of '{}' have {} rows together, the whole has {}", path,
                      rows, shape[0]);
  Tensor whole = Tensor::empty(shape, dtype_);
  whole.set_name(path);
  wholes_.push_back({whole, entries_.size(), parts.size()});
  int64_t row = 0;
  for (const Part& part : parts) {
    const Tensor view = whole.narrow(0, row, part.rows);
    row += part.rows;
    if (!source_) {
      draw(view, init, seed_for(seed_, part.name.c_str()));
    } else if (const Tensor found = load(part.name, view.shape())) {
      view.copy_from(found);
    }
    names_.insert(part.name);
    entries_.push_back({part.name, view});
  }
  return whole;
}

void Parameters::freeze_layout() {
  if (!complaints_.empty()) {
    std::string list;
    for (const auto& complaint : complaints_) list += "\n  " + complaint;
    fail<FileError>("[weights] {} of {} parameters cannot be loaded:{}", complaints_.size(), entries_.size(), list);
  }
  int64_t total = 0;
  std::vector<int64_t> offsets;
  for (const Whole& whole : wholes_) {
    offsets.push_back(total);
    total += (whole.tensor.numel() + kAlignment - 1) / kAlignment * kAlignment;
  }
  weights_ = Tensor::zeros({total}, dtype_);
  grads_ = Tensor::zeros({total}, dtype_);
  const auto storage = weights_.shared_storage();
  for (size_t i = 0; i < wholes_.size(); ++i) {
    Tensor& t = wholes_[i].tensor;
    const int64_t offset = offsets[i];
    weights_.narrow(0, offset, t.numel()).copy_from(t.view({-1}));
    t.rebase(storage, offset);
    require_grad(t);
    GradSlot& slot = *t.hook().slot;
    slot.buffer = grads_.narrow(0, offset, t.numel()).view(t.shape());
    slot.pinned = true;
    ranges_.push_back({offset, t.size(0), t.numel() / t.size(0)});
    int64_t row = 0;
    for (size_t e = 0; e < wholes_[i].entries; ++e) {
      Entry& entry = entries_[wholes_[i].first_entry + e];
      const int64_t rows = entry.tensor.size(0);
      entry.tensor = t.narrow(0, row, rows);
      entry.tensor.set_name(entry.name);
      row += rows;
    }
  }
  source_ = nullptr;  // what it refers to may end with the construction of the model
}

Tensor Parameters::find(const std::string& name) const {
  for (const Entry& entry : entries_)
    if (entry.name == name) return entry.tensor;
  fail<IndexError>("[parameters] there is no parameter '{}'", name);
}

int64_t Parameters::count() const {
  int64_t n = 0;
  for (const Whole& whole : wholes_) n += whole.tensor.numel();
  return n;
}

Tensor Parameters::grads() const {
  for (const Whole& whole : wholes_) whole.tensor.hook().slot->complete();
  return grads_;
}

void Parameters::zero_grad() const {
  for (const Whole& whole : wholes_) rapt::zero_grad(whole.tensor);
}

Scope Scope::operator/(const std::string& name) const {
  return Scope(*parameters_, path_.empty() ? name : path_ + "." + name);
}

Tensor Scope::parameter(const std::string& name, const Shape& shape, const Init& init) const {
  const std::string full = (*this / name).path_;
  const Part part{full, shape[0]};
  return parameters_->make(full, std::span(&part, 1), shape, init);
}

Tensor Scope::parameter(std::span<const Part> parts, const std::string& name, const Shape& shape,
                        const Init& init) const {
  std::vector<Part> named;
  for (const Part& part : parts) named.push_back({(*this / part.name / name).path_, part.rows});
  return parameters_->make((*this / name).path_, named, shape, init);
}

}  // namespace rapt::nn
