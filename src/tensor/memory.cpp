#include <base/fail.hpp>
#include <rapt/tensor/memory.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

namespace rapt {

std::string to_string(const Device& device) {
  return device.type == Device::Type::cpu ? "cpu" : fmt::format("cuda:{}", device.index);
}

namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t(2) << 20;

/// Sizes are rounded up to eighths of a power of two: at most 12.5 % is lost and neighbouring shapes share blocks.
size_t block_size(size_t bytes) {
  if (bytes <= 512) return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  const size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

std::byte* take_from_system(size_t bytes) {
  void* data = nullptr;
  if (posix_memalign(&data, bytes >= kHugePage ? kHugePage : kAlignment, bytes) != 0) return nullptr;
  if (bytes >= kHugePage) madvise(data, bytes, MADV_HUGEPAGE);  // fewer TLB misses; a hint, so unchecked
  return static_cast<std::byte*>(data);
}

class CpuPool {
 public:
  std::byte* allocate(size_t bytes) {
    const size_t size = block_size(bytes);
    std::lock_guard lock(mutex_);
    std::byte* data = nullptr;
    if (auto& free = free_[size]; !free.empty()) {
      data = free.back();
      free.pop_back();
    } else {
      data = take_from_system(size);
      if (!data) {
        release_free_blocks();
        data = take_from_system(size);
      }
      require<Error>(data, "[memory] {} bytes asked for and refused; {} are in use (a smaller batch needs less)", size,
                     stats_.in_use);
      stats_.reserved += size;
      ++stats_.system_allocations;
    }
    stats_.in_use += size;
    stats_.peak = std::max(stats_.peak, stats_.in_use);
    return data;
  }

  void give_back(std::byte* data, size_t bytes) {
    const size_t size = block_size(bytes);
    std::lock_guard lock(mutex_);
    free_[size].push_back(data);
    stats_.in_use -= size;
  }

  MemoryStats stats() {
    std::lock_guard lock(mutex_);
    return stats_;
  }
  void reset_peak() {
    std::lock_guard lock(mutex_);
    stats_.peak = stats_.in_use;
  }
  void release_cached() {
    std::lock_guard lock(mutex_);
    release_free_blocks();
  }

 private:
  void release_free_blocks() {
    for (auto& [size, blocks] : free_) {
      stats_.reserved -= size * blocks.size();
      for (std::byte* block : blocks) std::free(block);
      blocks.clear();
    }
  }
  std::mutex mutex_;
  std::map<size_t, std::vector<std::byte*>> free_;
  MemoryStats stats_;
};

/// Never destroyed: tensors in static variables may outlive every other static object.
CpuPool& cpu_pool() {
  static CpuPool* pool = new CpuPool;
  return *pool;
}

}  // namespace

MemoryStats memory_stats(Device) { return cpu_pool().stats(); }
void reset_peak_memory(Device) { cpu_pool().reset_peak(); }
void release_cached_memory(Device) { cpu_pool().release_cached(); }

Storage::Storage(std::byte* data, size_t bytes, Device device, std::shared_ptr<void> owner)
    : data_(data), bytes_(bytes), device_(device), owner_(std::move(owner)) {}

std::shared_ptr<Storage> Storage::allocate(size_t bytes, Device device) {
  require<KernelError>(device.type == Device::Type::cpu, "[memory] no memory on {}: this build runs on the CPU only",
                       to_string(device));
  return std::shared_ptr<Storage>(new Storage(cpu_pool().allocate(bytes), bytes, device, nullptr));
}

std::shared_ptr<Storage> Storage::borrow(void* data, size_t bytes, std::shared_ptr<void> owner) {
  require<Error>(owner != nullptr, "[memory] {} borrowed bytes have no owner that keeps them alive", bytes);
  return std::shared_ptr<Storage>(new Storage(static_cast<std::byte*>(data), bytes, Device{}, std::move(owner)));
}

void* Storage::attachment(std::shared_ptr<void> (*make)()) {
  std::call_once(attached_, [&] { attachment_ = make(); });
  return attachment_.get();
}

Storage::~Storage() {
  if (!owner_) cpu_pool().give_back(data_, bytes_);
}

}  // namespace rapt
