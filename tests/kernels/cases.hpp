#pragma once
// The table of operation cases. A new operation is one more entry in one of these lists.
#include <support/kernel_cases.hpp>

namespace rapt::testing {

std::vector<Operation> elementwise_operations();
std::vector<Operation> position_operations();  ///< dropout, swiglu, rotary
std::vector<Operation> row_operations();
std::vector<Operation> norm_operations();
std::vector<Operation> product_operations();  ///< gemm, attention, additive scores
std::vector<Operation> cell_operations();
std::vector<Operation> optimiser_operations();

/// All of them.
inline const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = [] {
    std::vector<Operation> list;
    for (const auto& part : {elementwise_operations(), position_operations(), row_operations(), norm_operations(),
                             product_operations(), cell_operations(), optimiser_operations()})
      list.insert(list.end(), part.begin(), part.end());
    return list;
  }();
  return all;
}

/// Widths around every vector length and a little more than a few of them.
inline constexpr int64_t kWidths[] = {1, 3, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 257};

inline std::string label(const Shape& shape) { return to_string(shape); }
inline std::string on(bool flag, const char* name) { return flag ? std::string(" ") + name : ""; }

}  // namespace rapt::testing
