#pragma once
#include <cstdint>
#include <string>

namespace rapt {

struct Device {
  enum class Type : uint8_t { cpu, cuda };
  Type type = Type::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};
std::string to_string(const Device& device);  ///< "cpu", "cuda:0"

}  // namespace rapt
