#include <kernels/cpu/pack_cache.hpp>

#include <atomic>

namespace rapt::kernels::cpu {

PackedForms& PackedForms::of(Storage& storage) {
  return *static_cast<PackedForms*>(
      storage.attachment([]() -> std::shared_ptr<void> { return std::make_shared<PackedForms>(); }));
}

std::shared_ptr<Storage> PackedForms::get(Storage& storage, const PackKey& key, size_t bytes,
                                          const std::function<void(std::byte*)>& pack) {
  // Read before packing: a change that comes during the packing makes the form stale.
  const uint64_t version = storage.version();
  std::shared_ptr<Storage> packed;
  {
    std::lock_guard lock(mutex_);
    Form& form = forms_[key];
    if (form.packed && form.version == version) return form.packed;
    if (form.packed.use_count() == 1) {
      std::atomic_thread_fence(std::memory_order_acquire);  // the last reader is done before the memory is used again
      packed = std::move(form.packed);
    }
    form.packed.reset();
  }
  if (!packed) packed = Storage::allocate(bytes);
  pack(packed->data());
  std::lock_guard lock(mutex_);
  forms_[key] = {packed, version};
  return packed;
}

}  // namespace rapt::kernels::cpu
