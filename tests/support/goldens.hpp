#pragma once
// Values exported from PyTorch by tools/goldens/, read from tests/data/.
#include <rapt/base/error.hpp>
#include <rapt/tensor/tensor.hpp>

#include <nlohmann/json.hpp>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace rapt::testing {

/// The tensors of one safetensors file of our own making; F64, F32, I32 and I64.
class Goldens {
 public:
  explicit Goldens(const std::string& file) {
    const std::string path = std::string(RAPT_TEST_DATA) + "/" + file;
    std::ifstream stream(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    uint64_t header_size = 0;
    if (bytes.size() < sizeof header_size) throw FileError(path + ": missing or empty");
    std::memcpy(&header_size, bytes.data(), sizeof header_size);
    const char* data = bytes.data() + sizeof header_size + header_size;
    static const std::map<std::string, DType> dtypes = {
        {"F64", DType::f64}, {"F32", DType::f32}, {"I32", DType::i32}, {"I64", DType::i64}};
    const auto header = nlohmann::json::parse(bytes.substr(sizeof header_size, header_size));
    for (const auto& [name, entry] : header.items()) {
      const auto sizes = entry["shape"].get<std::vector<int64_t>>();
      const Tensor t = Tensor::empty(Shape(std::span<const int64_t>(sizes)), dtypes.at(entry["dtype"]));
      const auto begin = entry["data_offsets"][0].get<size_t>(), end = entry["data_offsets"][1].get<size_t>();
      std::memcpy(t.raw(), data + begin, end - begin);
      tensors_[name] = t;
    }
  }

  const Tensor& operator[](const std::string& name) const {
    const auto it = tensors_.find(name);
    if (it == tensors_.end()) throw Error("no golden tensor '" + name + "'");
    return it->second;
  }

 private:
  std::map<std::string, Tensor> tensors_;
};

}  // namespace rapt::testing
