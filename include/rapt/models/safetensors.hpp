#pragma once
#include <rapt/tensor/tensor.hpp>

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rapt {

/// A file of named tensors: 8 bytes with the length N of the header (little-endian), N bytes of JSON
///   {"__metadata__": {"key": "value"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
/// and the data, row-major and little-endian; offsets count from the end of the header.
///
/// All of the header is checked before a tensor is given out. The tensors cover the data exactly, without overlap and
/// without a hole; sizes and offsets agree; no name appears twice. Anything else throws FileError with the numbers.
class SafetensorsFile {
 public:
  /// Maps the file: opening reads the header only, and a tensor's pages are read when they are touched.
  static SafetensorsFile open(const std::filesystem::path& path);
  /// The same for bytes in memory, kept alive by `owner`, or copied when `owner` is null. `label` begins the messages.
  static SafetensorsFile parse(std::span<const std::byte> bytes, std::shared_ptr<void> owner, std::string label);

  /// In the order of the data.
  const std::vector<std::string>& names() const { return names_; }
  bool has(std::string_view name) const { return entries_.contains(name); }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// The tensor of that name, over the memory of the file and keeping it alive; a copy when the file does not align it.
  /// Changing an element of a mapped file's tensor changes the memory of this process, not the file.
  /// A name that is not there, and a tensor of a kind that Tensor does not hold (U8, BOOL, more than six axes), throw
  /// FileError.
  Tensor tensor(std::string_view name) const;

 private:
  struct Entry {
    std::string dtype;
    std::vector<int64_t> shape;
    size_t begin = 0, end = 0;  ///< in the data
  };
  class HeaderReader;

  std::string label_;
  std::span<const std::byte> data_;
  std::shared_ptr<void> owner_;
  std::vector<std::string> names_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::map<std::string, std::string> metadata_;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// Writes the tensors in the given order, strided ones as contiguous copies, and replaces `path` in one step: what goes
/// wrong throws FileError and leaves the old file. The data begins at a multiple of 64 bytes.
void save_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace rapt
