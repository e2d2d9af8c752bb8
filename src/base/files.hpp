#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace rapt {

/// What goes wrong with a file throws FileError: "PATH: cannot open it: No such file or directory".

inline constexpr size_t kDefaultReadLimit = size_t(1) << 30;

/// The whole contents. More than `limit` bytes are refused, so that a wrong path does not fill the memory.
std::string read_file(const std::filesystem::path& path, size_t limit = kDefaultReadLimit);

/// A regular file seen as memory. Pages are read when they are touched. Writing to them changes this process's copy,
/// never the file. Whoever shortens the file in place while it is mapped takes the pages away (replacing it, as
/// write_file_atomically does, is harmless).
class MappedFile {
 public:
  static std::shared_ptr<MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

/// An open file that takes bytes in order; they are not buffered, so pieces should not be tiny.
class FileWriter {
 public:
  FileWriter(int descriptor, const std::filesystem::path& path) : descriptor_(descriptor), path_(path) {}
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

 private:
  int descriptor_;
  const std::filesystem::path& path_;
};

/// Replaces `path` by what `write` writes, wholly or not at all: a temporary file in the same folder is written, synced
/// and renamed, then the folder is synced. When anything fails, also by an exception from `write`, the temporary is
/// removed and the old file stays.
void write_file_atomically(const std::filesystem::path& path, const std::function<void(FileWriter&)>& write);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace rapt
