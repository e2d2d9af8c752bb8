#include <base/fail.hpp>
#include <base/files.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

namespace rapt {

namespace {

/// Call right after the system call that failed.
[[noreturn]] void fail_system(const std::filesystem::path& path, std::string_view wish) {
  const int error = errno;
  fail<FileError>("{}: cannot {}: {}", path.string(), wish, std::generic_category().message(error));
}

template <class Call>
auto retry_when_interrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int operator*() const { return value_; }
  /// Some file systems report a full disk only here.
  void close(const std::filesystem::path& path) {
    if (::close(std::exchange(value_, -1)) != 0 && errno != EINTR) fail_system(path, "write it");
  }

 private:
  int value_;
};

int open_for_reading(const std::filesystem::path& path, int flags = 0) {
  const int descriptor = retry_when_interrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags); });
  if (descriptor < 0) fail_system(path, "open it");
  return descriptor;
}

struct stat status_of(const Descriptor& file, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(*file, &status) != 0) fail_system(path, "read its size");
  require<FileError>(!S_ISDIR(status.st_mode), "{}: is a folder, a file is needed", path.string());
  return status;
}

/// Holds the folder open, so that a folder that cannot be synced is found before anything changes.
Descriptor open_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const int descriptor =
      retry_when_interrupted([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (descriptor < 0) fail_system(path, fmt::format("open its folder {}", folder.string()));
  return Descriptor(descriptor);
}

/// A new file beside `target`, removed again unless it takes the target's place.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& target) : target_(target), file_(create()) {}
  ~TemporaryFile() {
    if (!renamed_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int descriptor() const { return *file_; }
  void take_place_of_target() {
    if (retry_when_interrupted([&] { return ::fsync(*file_); }) != 0) fail_system(target_, "write it to the disk");
    file_.close(target_);
    if (::rename(path_.c_str(), target_.c_str()) != 0) fail_system(target_, "replace it");
    renamed_ = true;
  }

 private:
  /// Names that other threads, processes and machines on the same folder have taken are passed over.
  int create() {
    static std::atomic<uint64_t> counter{0};
    for (;;) {
      path_ = target_.string() + fmt::format(".tmp-{}-{}", ::getpid(), counter.fetch_add(1));
      const int descriptor =
          retry_when_interrupted([&] { return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
      if (descriptor >= 0) return descriptor;
      if (errno != EEXIST) fail_system(target_, "create a file beside it");
    }
  }
  const std::filesystem::path& target_;
  std::filesystem::path path_;
  Descriptor file_;
  bool renamed_ = false;
};

}  // namespace

std::string read_file(const std::filesystem::path& path, size_t limit) {
  const Descriptor file(open_for_reading(path));
  const struct stat status = status_of(file, path);
  const auto too_large = [&](size_t size) {
    fail<FileError>("{}: has {} bytes or more, at most {} are read", path.string(), size, limit);
  };
  if (S_ISREG(status.st_mode) && size_t(status.st_size) > limit) too_large(size_t(status.st_size));
  // The size is only a hint: pipes and files under /proc say 0, and a file may grow meanwhile.
  constexpr size_t kPiece = size_t(64) << 10;
  std::string text(std::max(size_t(status.st_size) + 1, kPiece), '\0');
  size_t filled = 0;
  for (;;) {
    if (filled == text.size()) text.resize(2 * text.size());
    const ssize_t got =
        retry_when_interrupted([&] { return ::read(*file, text.data() + filled, text.size() - filled); });
    if (got < 0) fail_system(path, "read it");
    if (got == 0) break;
    filled += size_t(got);
    if (filled > limit) too_large(filled);
  }
  text.resize(filled);
  return text;
}

std::shared_ptr<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // Without O_NONBLOCK opening a pipe would wait for a writer.
  const Descriptor file(open_for_reading(path, O_NONBLOCK));
  const struct stat status = status_of(file, path);
  require<FileError>(S_ISREG(status.st_mode), "{}: is a device or pipe, a file is needed", path.string());
  const size_t size = size_t(status.st_size);
  if (size == 0) return std::shared_ptr<MappedFile>(new MappedFile({}));
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, *file, 0);
  if (data == MAP_FAILED) fail_system(path, fmt::format("map its {} bytes", size));
  return std::shared_ptr<MappedFile>(new MappedFile({static_cast<std::byte*>(data), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

void FileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = retry_when_interrupted([&] { return ::write(descriptor_, bytes.data(), bytes.size()); });
    if (put < 0) fail_system(path_, "write it");
    bytes = bytes.subspan(size_t(put));
  }
}

void write_file_atomically(const std::filesystem::path& path, const std::function<void(FileWriter&)>& write) {
  require<FileError>(path.has_filename(), "'{}': names no file", path.string());
  const Descriptor folder = open_folder_of(path);
  TemporaryFile temporary(path);
  FileWriter writer(temporary.descriptor(), path);
  write(writer);
  temporary.take_place_of_target();
  // EINVAL: a file system that does not sync folders keeps the rename in another way.
  if (retry_when_interrupted([&] { return ::fsync(*folder); }) != 0 && errno != EINVAL)
    fail_system(path, "write its folder to the disk");
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  write_file_atomically(path, [&](FileWriter& writer) { writer.write(text); });
}

}  // namespace rapt
