#pragma once
#include <rapt/tensor/device.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace rapt {

/// What the caching pool of a device holds. A step of the same shapes asks for the same blocks in the same order, so
/// after the first step nothing is asked of the system any more.
struct MemoryStats {
  size_t in_use = 0;    ///< bytes in live storages
  size_t peak = 0;      ///< highest `in_use` since the last reset
  size_t reserved = 0;  ///< bytes taken from the system, free blocks included
  size_t system_allocations = 0;
};
MemoryStats memory_stats(Device device = {});
void reset_peak_memory(Device device = {});
/// Gives free blocks back to the system.
void release_cached_memory(Device device = {});

/// Reference-counted bytes: from the pool (aligned to 64), or borrowed from an owner such as a mapped file.
class Storage {
 public:
  static std::shared_ptr<Storage> allocate(size_t bytes, Device device = {});
  static std::shared_ptr<Storage> borrow(void* data, size_t bytes, std::shared_ptr<void> owner);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  /// Counts in-place changes, so that what is derived from the contents (packed weights) knows when it is stale.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  void touch() { version_.fetch_add(1, std::memory_order_acq_rel); }

  /// A slot for what is derived from the contents: made by the first who asks, and destroyed with the storage.
  void* attachment(std::shared_ptr<void> (*make)());

 private:
  Storage(std::byte* data, size_t bytes, Device device, std::shared_ptr<void> owner);
  std::byte* data_;
  size_t bytes_;
  Device device_;
  std::shared_ptr<void> owner_;
  std::atomic<uint64_t> version_{0};
  std::once_flag attached_;
  std::shared_ptr<void> attachment_;
};

}  // namespace rapt
