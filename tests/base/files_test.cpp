#include <base/fail.hpp>
#include <base/files.hpp>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>
#include <vector>

namespace rapt {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  Files() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / fmt::format("rapt-files-{}-{}", test->name(), getpid());
    fs::create_directories(folder_);
  }
  ~Files() override {
    fs::permissions(folder_, fs::perms::owner_all);
    fs::remove_all(folder_);
  }
  fs::path at(std::string_view name) const { return folder_ / name; }
  std::vector<std::string> listing() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
    return names;
  }
  static void put(const fs::path& path, std::string_view text) { std::ofstream(path) << text; }

  fs::path folder_;
};

template <class F>
std::string file_error_of(F&& f) {
  try {
    f();
  } catch (const FileError& error) {
    return error.what();
  }
  return "no error";
}

/// Runs `check` in a child process, which may change its own limits and identity; true when it returned true.
template <class F>
bool holds_in_child(F&& check) {
  const pid_t child = fork();
  if (child == 0) {
    bool good = false;
    try {
      good = check();
    } catch (...) {
    }
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// File permissions then hold for the superuser too.
void give_up_superuser_rights() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  syscall(SYS_capset, &header, none);
}

TEST_F(Files, ReadsWhatWasWritten) {
  for (size_t size : {size_t(0), size_t(1), size_t(65535), size_t(65536), size_t(300000)}) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = char(i * 31);
    write_file_atomically(at("f"), text);
    EXPECT_EQ(read_file(at("f")), text);
    const auto mapped = MappedFile::open(at("f"));
    ASSERT_EQ(mapped->bytes().size(), size);
    EXPECT_TRUE(std::equal(text.begin(), text.end(), reinterpret_cast<const char*>(mapped->bytes().data())));
    EXPECT_EQ(listing(), std::vector<std::string>{"f"});
  }
}

TEST_F(Files, ReadsAPipeToItsEnd) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  const std::string text(200000, 'x');
  std::thread feeder([&] { put(at("pipe"), text); });
  EXPECT_EQ(read_file(at("pipe")), text);
  feeder.join();
}

TEST_F(Files, SaysWhyAFileCannotBeRead) {
  const std::string missing = at("missing").string();
  EXPECT_EQ(file_error_of([&] { read_file(missing); }), missing + ": cannot open it: No such file or directory");
  EXPECT_EQ(file_error_of([&] { MappedFile::open(missing); }), missing + ": cannot open it: No such file or directory");
  EXPECT_EQ(file_error_of([&] { read_file(folder_); }), folder_.string() + ": is a folder, a file is needed");
  EXPECT_EQ(file_error_of([&] { MappedFile::open(folder_); }), folder_.string() + ": is a folder, a file is needed");
  EXPECT_EQ(file_error_of([&] { MappedFile::open("/dev/null"); }), "/dev/null: is a device or pipe, a file is needed");
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_EQ(file_error_of([&] { MappedFile::open(at("pipe")); }),
            at("pipe").string() + ": is a device or pipe, a file is needed");
}

TEST_F(Files, RefusesMoreThanTheLimit) {
  put(at("f"), "12345678");
  EXPECT_EQ(read_file(at("f"), 8), "12345678");
  EXPECT_EQ(file_error_of([&] { read_file(at("f"), 7); }),
            at("f").string() + ": has 8 bytes or more, at most 7 are read");
  EXPECT_NE(file_error_of([] { read_file("/dev/zero", 1000); }).find("at most 1000 are read"), std::string::npos);
}

TEST_F(Files, WritingToAMappedFileLeavesTheFile) {
  put(at("f"), "abc");
  const auto mapped = MappedFile::open(at("f"));
  mapped->bytes()[0] = std::byte{'X'};
  EXPECT_EQ(read_file(at("f")), "abc");
}

TEST_F(Files, AMappedFileKeepsItsContentsWhenReplaced) {
  put(at("f"), "old");
  const auto mapped = MappedFile::open(at("f"));
  write_file_atomically(at("f"), "new contents");
  fs::remove(at("f"));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(mapped->bytes().data()), mapped->bytes().size()), "old");
}

TEST_F(Files, AWriterThatThrowsLeavesTheOldFile) {
  put(at("f"), "old");
  const auto half = [](FileWriter& writer) {
    writer.write("half of it");
    throw std::runtime_error("writer gave up");
  };
  EXPECT_THROW(write_file_atomically(at("f"), half), std::runtime_error);
  EXPECT_EQ(read_file(at("f")), "old");
  EXPECT_EQ(listing(), std::vector<std::string>{"f"});
}

TEST_F(Files, AFullDiskLeavesTheOldFile) {
  put(at("f"), "old");
  EXPECT_TRUE(holds_in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string error = file_error_of([&] { write_file_atomically(at("f"), std::string(10000, 'x')); });
    return error == at("f").string() + ": cannot write it: File too large";
  }));
  EXPECT_EQ(read_file(at("f")), "old");
  EXPECT_EQ(listing(), std::vector<std::string>{"f"});
}

TEST_F(Files, ADeviceWithoutRoomIsAnError) {
  const fs::path full = "/dev/full";
  const int descriptor = ::open(full.c_str(), O_WRONLY);
  ASSERT_GE(descriptor, 0);
  FileWriter writer(descriptor, full);
  EXPECT_EQ(file_error_of([&] { writer.write("x"); }), "/dev/full: cannot write it: No space left on device");
  ::close(descriptor);
}

TEST_F(Files, SaysWhyAFileCannotBeWritten) {
  const std::string nowhere = (folder_ / "no" / "f").string();
  EXPECT_EQ(file_error_of([&] { write_file_atomically(nowhere, "x"); }),
            nowhere + ": cannot open its folder " + (folder_ / "no").string() + ": No such file or directory");
  fs::create_directories(at("folder") / "inside");
  EXPECT_EQ(file_error_of([&] { write_file_atomically(at("folder"), "x"); }),
            at("folder").string() + ": cannot replace it: Is a directory");
  EXPECT_EQ(listing(), std::vector<std::string>{"folder"});
  EXPECT_EQ(file_error_of([&] { write_file_atomically("", "x"); }), "'': names no file");
}

TEST_F(Files, AnUnwritableFolderOrUnreadableFileIsAnError) {
  put(at("f"), "old");
  put(at("secret"), "secret");
  fs::permissions(at("secret"), fs::perms::none);
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_TRUE(holds_in_child([&] {
    give_up_superuser_rights();
    return file_error_of([&] { write_file_atomically(at("f"), "new"); }) ==
               at("f").string() + ": cannot create a file beside it: Permission denied" &&
           file_error_of([&] { read_file(at("secret")); }) ==
               at("secret").string() + ": cannot open it: Permission denied";
  }));
  EXPECT_EQ(read_file(at("f")), "old");
  EXPECT_EQ(listing().size(), 2u);
}

TEST_F(Files, ThreadsThatWriteTheSameFileLeaveOneOfTheirVersions) {
  std::vector<std::thread> threads;
  for (char c : {'a', 'b', 'c', 'd'})
    threads.emplace_back([&, c] {
      for (int i = 0; i < 10; ++i) write_file_atomically(at("f"), std::string(10000, c));
    });
  for (auto& thread : threads) thread.join();
  const std::string text = read_file(at("f"));
  EXPECT_EQ(text, std::string(10000, text.at(0)));
  EXPECT_EQ(listing(), std::vector<std::string>{"f"});
}

TEST_F(Files, WritesBesideTheWorkingFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  write_file_atomically("plain-name", "x");
  fs::current_path(before);
  EXPECT_EQ(read_file(at("plain-name")), "x");
}

}  // namespace
}  // namespace rapt
