#include <rapt/base/error.hpp>
#include <rapt/tensor/tensor.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

namespace rapt {
namespace {

using Values = std::vector<double>;

/// 0, 1, 2, ... in this shape.
Tensor counting(const Shape& shape, DType dtype = DType::f32) {
  Values values(size_t(shape.numel()));
  std::iota(values.begin(), values.end(), 0.0);
  return Tensor::from(values, shape).to(dtype);
}

template <class E>
std::string message(const std::function<void()>& action) {
  try {
    action();
  } catch (const E& e) {
    return e.what();
  }
  return "nothing of this type was thrown";
}

TEST(Tensor, IsMadeWithContents) {
  EXPECT_EQ(Tensor::zeros({2, 2}).to_vector(), (Values{0, 0, 0, 0}));
  EXPECT_EQ(Tensor::full({3}, 2.5, DType::bf16).to_vector(), (Values{2.5, 2.5, 2.5}));
  EXPECT_EQ(Tensor::from(std::vector<int32_t>{4, 5, 6, 7}, {2, 2}).to_vector(), (Values{4, 5, 6, 7}));
  EXPECT_EQ(Tensor::full({}, 3).item(), 3);
  EXPECT_EQ(Tensor::zeros({0, 4}).to_vector(), Values{});
}

TEST(Tensor, UndefinedStandsForAbsent) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_FALSE(bool(none));
  EXPECT_FALSE(none.requires_grad());
  EXPECT_EQ(message<Error>([&] { none.shape(); }), "[tensor] used before it was given a value");
  EXPECT_EQ(to_string(none), "undefined");
}

TEST(Tensor, CopiesShareTheirContents) {
  const Tensor a = Tensor::zeros({3}), b = a;
  b.fill(4);
  EXPECT_EQ(a.to_vector(), (Values{4, 4, 4}));
}

TEST(Tensor, AxesCountFromBothEnds) {
  const Tensor t = counting({2, 3, 4});
  EXPECT_EQ(t.size(-1), 4);
  EXPECT_EQ(t.stride(-3), 12);
  EXPECT_EQ(message<IndexError>([&] { t.size(3); }), "[shape] axis 3 of a tensor with 3 axes");
  EXPECT_EQ(message<IndexError>([&] { t.size(-4); }), "[shape] axis -4 of a tensor with 3 axes");
}

TEST(View, KeepsTheOrderOfTheElements) {
  const Tensor t = counting({2, 6});
  const Tensor v = t.view({3, -1});
  EXPECT_EQ(v.shape(), (Shape{3, 4}));
  EXPECT_EQ(v.to_vector(), t.to_vector());
  EXPECT_EQ(t.view({1, 12, 1}).shape(), (Shape{1, 12, 1}));
  EXPECT_EQ(Tensor::zeros({0, 3}).view({3, 0}).shape(), (Shape{3, 0}));
  EXPECT_EQ(Tensor::full({1}, 5).view({}).item(), 5);
}

TEST(View, OfAStridedTensorSplitsWhatLiesTogether) {
  const Tensor t = counting({4, 6}).narrow(1, 1, 3);
  const Tensor v = t.view({2, 2, 3});
  EXPECT_EQ(v.strides(), (Strides{12, 6, 1}));
  EXPECT_EQ(v.to_vector(), t.to_vector());
  const Tensor heads = counting({2, 5, 12}).narrow(2, 4, 8).view({2, 5, 2, 4});
  EXPECT_EQ(heads.strides(), (Strides{60, 12, 4, 1}));
  EXPECT_EQ(heads.at({1, 2, 1, 3}), 60 + 24 + 4 + 4 + 3);
  EXPECT_EQ(counting({3, 4}).transpose(0, 1).view({2, 2, 3}).to_vector(), counting({3, 4}).transpose(0, 1).to_vector());
}

TEST(View, RefusesWhatMemoryCannotShow) {
  const Tensor t = counting({4, 6});
  EXPECT_EQ(message<ShapeError>([&] { t.view({5, 5}); }), "[view] [4, 6] has 24 elements, [5, 5] has another number");
  EXPECT_EQ(message<ShapeError>([&] { t.view({-1, -1}); }), "[view] more than one -1 in [-1, -1]");
  EXPECT_EQ(message<ShapeError>([&] { t.view({-1, 5}); }), "[view] [4, 6] has 24 elements, [-1, 5] has another number");
  EXPECT_EQ(message<ShapeError>([&] { t.view({-4, -6}); }), "[view] [-4, -6] is not a possible shape");
  EXPECT_EQ(message<ShapeError>([&] {
              counting({0, 6}).view({0, -1});
            }),
            "[view] [0, 6] as [0, -1]: beside a size of 0 the -1 could be anything");
  EXPECT_EQ(counting({0, 6}).view({-1, 3}).shape(), (Shape{0, 3}));
  EXPECT_EQ(message<ShapeError>([&] { t.transpose(0, 1).view({24}); }),
            "[view] [6, 4] with strides [1, 6] cannot be seen as [24]: call contiguous() first");
  EXPECT_EQ(t.transpose(0, 1).contiguous().view({24}).at({1}), 6);
}

TEST(Transpose, SwapsSizesAndStrides) {
  const Tensor t = counting({2, 3, 4}).transpose(0, -1);
  EXPECT_EQ(t.shape(), (Shape{4, 3, 2}));
  EXPECT_EQ(t.at({3, 2, 1}), 23);
  EXPECT_EQ(t.at({1, 0, 1}), 13);
  EXPECT_FALSE(t.is_contiguous());
  EXPECT_TRUE(counting({1, 5}).transpose(0, 1).is_contiguous());
}

TEST(Narrow, IsAWindowOnTheSameMemory) {
  const Tensor t = counting({3, 5});
  const Tensor window = t.narrow(1, 2, 2);
  EXPECT_EQ(window.to_vector(), (Values{2, 3, 7, 8, 12, 13}));
  window.fill(-1);
  EXPECT_EQ(t.at({2, 3}), -1);
  EXPECT_EQ(t.at({2, 4}), 14);
  EXPECT_EQ(t.narrow(0, 3, 0).numel(), 0);
  EXPECT_EQ(message<IndexError>([&] { t.narrow(1, 4, 2); }), "[narrow] 2 elements from 4 on along axis 1 of [3, 5]");
  EXPECT_EQ(message<IndexError>([&] { t.narrow(1, 2, INT64_MAX); }),
            "[narrow] 9223372036854775807 elements from 2 on along axis 1 of [3, 5]");
  EXPECT_THROW(t.narrow(0, -1, 2), IndexError);
  EXPECT_THROW(t.narrow(0, 1, -1), IndexError);
}

TEST(Select, DropsTheAxis) {
  const Tensor t = counting({2, 3, 4});
  EXPECT_EQ(t.select(1, 2).to_vector(), (Values{8, 9, 10, 11, 20, 21, 22, 23}));
  EXPECT_EQ(t.select(-1, 0).shape(), (Shape{2, 3}));
  EXPECT_THROW(t.select(0, 2), IndexError);
}

TEST(Regions, SayWhichElementsOfTheBaseAViewCovers) {
  const Tensor t = counting({4, 6});
  EXPECT_TRUE(t.hook().region.whole());
  EXPECT_TRUE(t.view({24}).hook().region.whole());
  EXPECT_TRUE(t.transpose(0, 1).hook().region.whole());
  EXPECT_TRUE(t.narrow(1, 0, 6).hook().region.whole());
  EXPECT_EQ(t.narrow(1, 2, 3).hook().region, (Region{6, 2, 5}));
  EXPECT_EQ(t.narrow(0, 1, 2).hook().region, (Region{24, 6, 18}));
  EXPECT_EQ(t.select(1, 5).hook().region, (Region{6, 5, 6}));
  EXPECT_EQ(t.narrow(1, 2, 3).view({2, 2, 3}).hook().region, (Region{6, 2, 5}));
  EXPECT_EQ(counting({2, 3, 4}).narrow(1, 1, 1).hook().region, (Region{12, 4, 8}));
}

TEST(Regions, AreIrregularWhenAWindowIsCutFromAWindow) {
  const Tensor t = counting({4, 6});
  EXPECT_EQ(t.narrow(1, 0, 3).narrow(0, 0, 2).hook().region, (Region{0, 0, 0}));
  EXPECT_EQ(t.transpose(0, 1).narrow(0, 0, 2).hook().region, (Region{0, 0, 0}));
}

/// The promise of Region itself, on every window of a small tensor.
TEST(Regions, HoldExactlyTheElementsOfTheWindow) {
  const Tensor t = counting({3, 4, 5});
  for (int axis = 0; axis < 3; ++axis)
    for (int64_t begin = 0; begin < t.size(axis); ++begin)
      for (int64_t length = 1; begin + length <= t.size(axis); ++length) {
        const Tensor window = t.narrow(axis, begin, length);
        const Region region = window.hook().region;
        Values inside;
        for (int64_t n = 0; n < t.numel(); ++n)
          if (n % region.period >= region.begin && n % region.period < region.end) inside.push_back(double(n));
        EXPECT_EQ(window.to_vector(), inside);
      }
}

TEST(Copies, ConvertBetweenAllTypesAndStrides) {
  const DType all[] = {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i8, DType::i32, DType::i64};
  for (const DType from : all)
    for (const DType to : all) {
      const Tensor source = counting({3, 4}, from).transpose(0, 1);
      const Tensor target = Tensor::full({4, 6}, -1, to).narrow(1, 2, 3);
      target.copy_from(source);
      EXPECT_EQ(target.to_vector(), source.to_vector()) << to_string(from) << " to " << to_string(to);
      EXPECT_EQ(source.to(to).to_vector(), source.to_vector());
    }
  EXPECT_EQ(message<ShapeError>([] { Tensor::zeros({2}).copy_from(Tensor::zeros({3})); }), "[copy] from [3] to [2]");
}

TEST(Copies, ContiguousIsItselfWhenItCanBe) {
  const Tensor t = counting({2, 3});
  EXPECT_EQ(t.contiguous().raw(), t.raw());
  const Tensor c = t.transpose(0, 1).contiguous();
  EXPECT_NE(c.raw(), t.raw());
  EXPECT_TRUE(c.is_contiguous());
  EXPECT_EQ(c.to_vector(), (Values{0, 3, 1, 4, 2, 5}));
}

TEST(Access, IsCheckedByTypeAndIndex) {
  const Tensor t = counting({2, 3});
  EXPECT_EQ(message<DTypeError>([&] { t.data<double>(); }), "[tensor] holds f32, read as f64");
  EXPECT_EQ(message<IndexError>([&] { t.at({0, 3}); }), "[tensor] index 3 on axis 1 of [2, 3]");
  EXPECT_EQ(message<IndexError>([&] { t.at({0}); }), "[tensor] 1 indices for shape [2, 3]");
  EXPECT_EQ(message<ShapeError>([&] { t.item(); }), "[item] shape [2, 3] holds 6 elements, not one");
}

TEST(Making, RefusesImpossibleShapes) {
  EXPECT_EQ(message<ShapeError>([] { Tensor::empty({-1, 2}); }), "[tensor] shape [-1, 2] is not possible");
  EXPECT_THROW(Tensor::empty({int64_t(1) << 40, int64_t(1) << 40}), ShapeError);
  EXPECT_EQ(message<ShapeError>([] {
              Tensor::from(std::vector<float>{1, 2}, {3});
            }),
            "[tensor] 2 values for shape [3]");
  EXPECT_EQ(message<ShapeError>([] { Tensor::over(Storage::allocate(8), 1, {2}, DType::f32); }),
            "[tensor] shape [2] of f32 from element 1 on does not fit in a storage of 8 bytes");
  const int64_t large = int64_t(1) << 32;  // its square wraps around to 0
  EXPECT_THROW(Tensor::over(Storage::allocate(64), 0, {large, large}, DType::f32), ShapeError);
  EXPECT_THROW(Tensor::over(Storage::allocate(64), INT64_MAX, {1}, DType::f32), ShapeError);
  EXPECT_THROW(Tensor::over(nullptr, 0, {1}, DType::f32), Error);
  EXPECT_THROW(Tensor::zeros({0}).view({large, large}), ShapeError);
  EXPECT_EQ(message<ShapeError>([] { Shape{1, 1, 1, 1, 1, 1, 1}; }), "[shape] 7 axes: at most 6 are supported");
}

TEST(Rebase, MovesTheHandleOntoOtherMemory) {
  const Tensor flat = counting({10});
  Tensor t = Tensor::zeros({2, 2});
  const Tensor copy = t;
  t.rebase(Storage::borrow(flat.raw(), 40, std::make_shared<Tensor>(flat)), 3);
  EXPECT_EQ(copy.to_vector(), (Values{3, 4, 5, 6}));
  EXPECT_THROW(t.rebase(Storage::allocate(16), 1), ShapeError);
}

TEST(Printing, ShowsCornersOfLargeTensors) {
  EXPECT_EQ(to_string(counting({2, 2}), 1), "[[0.0, 1.0]\n [2.0, 3.0]]");
  EXPECT_EQ(to_string(counting({3}, DType::i32)), "[0, 1, 2]");
  EXPECT_EQ(to_string(counting({100}), 0, 2), "[0, 1, ... 98, 99]");
  EXPECT_EQ(to_string(Tensor::full({}, 1.5), 2), "1.50");
}

TEST(Shapes, ReplaceDropAndInsert) {
  const Shape s = {2, 3};
  EXPECT_EQ(s.with(-1, 7), (Shape{2, 7}));
  EXPECT_EQ(s.without(0), (Shape{3}));
  EXPECT_EQ(s.inserted(0, 5), (Shape{5, 2, 3}));
  EXPECT_EQ(s.inserted(-1, 5), (Shape{2, 3, 5}));
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Strides{12, 4, 1}));
}

}  // namespace
}  // namespace rapt
