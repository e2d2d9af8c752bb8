#pragma once
#include <rapt/base/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace rapt {

/// `fail<ShapeError>("[linear] inner dimensions differ: {} x {}", a, b)`
template <class E, class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw E(fmt::format(text, std::forward<Args>(args)...));
}

/// Throws when `condition` does not hold. The arguments are formatted only then.
template <class E, class... Args>
void require(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) [[unlikely]]
    throw E(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace rapt
