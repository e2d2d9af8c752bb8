#include <rapt/base/error.hpp>
#include <rapt/tensor/tensor.hpp>

#include <gtest/gtest.h>

namespace rapt {
namespace {

TEST(Pool, TheSameShapesAgainAskTheSystemForNothing) {
  const auto step = [] {
    const Tensor a = Tensor::empty({300, 40}), b = Tensor::empty({7}), c = Tensor::empty({1 << 20});
    return std::vector<std::byte*>{a.raw(), b.raw(), c.raw()};
  };
  const auto first = step();
  const size_t asked = memory_stats().system_allocations;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(step(), first);
  EXPECT_EQ(memory_stats().system_allocations, asked);
}

TEST(Pool, CountsWhatIsInUseAndItsPeak) {
  const size_t before = memory_stats().in_use;
  reset_peak_memory();
  EXPECT_EQ(memory_stats().peak, before);
  {
    const Tensor a = Tensor::empty({1024}), b = Tensor::empty({1024});
    EXPECT_EQ(memory_stats().in_use, before + 2 * 4096);
    const Tensor view = a.view({32, 32});
    EXPECT_EQ(memory_stats().in_use, before + 2 * 4096);
  }
  EXPECT_EQ(memory_stats().in_use, before);
  EXPECT_EQ(memory_stats().peak, before + 2 * 4096);
  reset_peak_memory();
  EXPECT_EQ(memory_stats().peak, before);
}

TEST(Pool, RoundsUpByAnEighthAtMost) {
  for (size_t bytes = 1; bytes < 100'000; bytes = bytes * 9 / 8 + 1) {
    const size_t before = memory_stats().in_use;
    const auto storage = Storage::allocate(bytes);
    const size_t taken = memory_stats().in_use - before;
    EXPECT_GE(taken, bytes);
    EXPECT_LE(taken, bytes + std::max<size_t>(64, bytes / 8)) << bytes;
  }
}

TEST(Pool, BlocksAreAligned) {
  for (const size_t bytes : {1, 63, 65, 1000, 5000, 3 << 20}) {
    const auto storage = Storage::allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(storage->data()) % 64, 0u) << bytes;
  }
}

TEST(Pool, FreeBlocksCanBeGivenBack) {
  { const Tensor t = Tensor::empty({123'457}); }
  release_cached_memory();
  EXPECT_EQ(memory_stats().reserved, memory_stats().in_use);
}

TEST(Pool, AnImpossibleSizeIsRefusedWithItsNumber) {
  try {
    Storage::allocate(size_t(1) << 60);
    FAIL() << "an exabyte was granted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("[memory] 1152921504606846976 bytes asked for and refused"),
              std::string::npos);
  }
}

TEST(Storage, OtherDevicesAreRefused) {
  EXPECT_THROW(Tensor::empty({3}, DType::f32, Device{Device::Type::cuda, 0}), KernelError);
  EXPECT_EQ(to_string(Device{}), "cpu");
  EXPECT_EQ(to_string(Device{Device::Type::cuda, 1}), "cuda:1");
}

TEST(Storage, BorrowedMemoryKeepsItsOwnerAlive) {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4});
  const std::weak_ptr<void> watch = owner;
  const size_t in_use = memory_stats().in_use;
  {
    const Tensor t = Tensor::over(Storage::borrow(owner->data(), 16, owner), 1, {3}, DType::f32);
    owner.reset();
    EXPECT_FALSE(watch.expired());
    EXPECT_EQ(t.to_vector(), (std::vector<double>{2, 3, 4}));
  }
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(memory_stats().in_use, in_use);
}

TEST(Storage, InPlaceChangesAreCounted) {
  const Tensor t = Tensor::zeros({4}), view = t.narrow(0, 0, 2);
  const uint64_t version = t.storage().version();
  t.fill(1);
  EXPECT_EQ(t.storage().version(), version + 1);
  view.copy_from(Tensor::zeros({2}));
  EXPECT_EQ(t.storage().version(), version + 2);
  t.storage().touch();
  EXPECT_EQ(view.storage().version(), version + 3);
}

}  // namespace
}  // namespace rapt
