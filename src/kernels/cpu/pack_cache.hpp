#pragma once
// Packed forms of weights, kept with the storage that holds the weights.
#include <rapt/tensor/tensor.hpp>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace rapt::kernels::cpu {

/// What makes two packed forms the same: the view (offset, sizes, strides, type) and the layout.
using PackKey = std::array<int64_t, 20>;

/// The packed forms of the views of one storage. A model's parameters share one storage, so there are many. A form is
/// valid for one version of the contents; packing anew uses the memory of the stale form.
class PackedForms {
 public:
  /// The forms of `storage`; they live as long as it does.
  static PackedForms& of(Storage& storage);

  /// The form for `key` at the present version, made by `pack(memory)` when it is missing or stale. Threads that ask
  /// for the same missing form at the same time each make one: none waits for another, which could be waiting for it
  /// in the thread pool.
  std::shared_ptr<Storage> get(Storage& storage, const PackKey& key, size_t bytes,
                               const std::function<void(std::byte*)>& pack);

 private:
  struct Form {
    std::shared_ptr<Storage> packed;
    uint64_t version = 0;
  };
  std::mutex mutex_;
  std::map<PackKey, Form> forms_;
};

}  // namespace rapt::kernels::cpu
