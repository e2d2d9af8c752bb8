#include <rapt/base/error.hpp>
#include <rapt/models/safetensors.hpp>

using namespace rapt;

/// Any bytes: either a file whose tensors can all be read to the last element, or a FileError.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto bytes = std::as_bytes(std::span(data, size));
    const SafetensorsFile file = SafetensorsFile::parse(bytes, nullptr, "input");
    for (const std::string& name : file.names()) {
      try {
        file.tensor(name).to_vector();
      } catch (const FileError&) {  // a dtype or rank that cannot be held; the others can still be read
      }
    }
  } catch (const FileError&) {
  }
  return 0;
}
