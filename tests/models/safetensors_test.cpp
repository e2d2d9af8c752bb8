#include <base/fail.hpp>
#include <base/files.hpp>
#include <rapt/models/safetensors.hpp>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <csignal>
#include <cstring>

namespace rapt {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;
using Values = std::vector<double>;

std::string with_length(std::string_view header, uint64_t length) {
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text.append(header);
}

/// A file of this header and `data_bytes` zeros.
std::string file_of(std::string_view header, size_t data_bytes = 0) {
  return with_length(header, header.size()) + std::string(data_bytes, '\0');
}

SafetensorsFile parse(std::string_view text) {
  return SafetensorsFile::parse(std::as_bytes(std::span(text)), nullptr, "x.safetensors");
}

/// The FileError's text without the label; any other exception fails the test.
std::string error_of(std::string_view text) {
  try {
    const SafetensorsFile file = parse(text);
    for (const std::string& name : file.names()) file.tensor(name).to_vector();
  } catch (const FileError& error) {
    const std::string what = error.what();
    EXPECT_TRUE(what.starts_with("x.safetensors: ")) << what;
    return what.substr(15);
  }
  return "accepted";
}

class SafetensorsFiles : public testing::Test {
 protected:
  SafetensorsFiles() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / fmt::format("rapt-safetensors-{}-{}", test->name(), getpid());
    fs::create_directories(folder_);
    path_ = folder_ / "m.safetensors";
  }
  ~SafetensorsFiles() override { fs::remove_all(folder_); }
  fs::path folder_, path_;
};

TEST(Safetensors, ReadsAFileMadeFromTheDefinition) {
  const auto file = SafetensorsFile::open(RAPT_TEST_DATA "/golden.safetensors");
  EXPECT_EQ(file.names(),
            (Names{"bytes", "misaligned", "double", "brain", "half", "int", "long", "nothing", "scalar ä", "mask"}));
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}, {"note", "größe"}}));
  const auto expect = [&](const char* name, DType dtype, const Shape& shape, const Values& values) {
    ASSERT_TRUE(file.has(name));
    const Tensor t = file.tensor(name);
    EXPECT_EQ(t.dtype(), dtype) << name;
    EXPECT_EQ(t.shape(), shape) << name;
    EXPECT_EQ(t.to_vector(), values) << name;
    EXPECT_EQ(t.name(), name);
  };
  expect("bytes", DType::i8, {3}, {-1, 0, 127});
  expect("misaligned", DType::f32, {2, 2}, {1.0, -2.5, double(3.0e38f), 0.0});
  expect("double", DType::f64, {2}, {0.1, -1e300});
  expect("brain", DType::bf16, {2}, {1, -3});
  expect("half", DType::f16, {2}, {1.5, -65504});
  expect("int", DType::i32, {2}, {-2147483648.0, 7});
  expect("long", DType::i64, {1}, {-9007199254740992.0});
  expect("nothing", DType::f32, {0, 5}, {});
  expect("scalar ä", DType::f32, {}, {42});
  EXPECT_THROW(file.tensor("mask"), FileError);
  EXPECT_THROW(file.tensor("absent"), FileError);
  EXPECT_FALSE(file.has("absent"));
}

TEST_F(SafetensorsFiles, WritesTheseBytes) {
  const NamedTensor tensors[] = {{"b \"1\"", Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}).transpose(0, 1)},
                                 {"a", Tensor::from<int8_t>({-1, 1}, {2})}};
  save_safetensors(path_, tensors, {{"format", "pt"}});
  std::string header =
      R"({"__metadata__":{"format":"pt"},"b \"1\"":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]},)"
      R"("a":{"dtype":"I8","shape":[2],"data_offsets":[24,26]}})";
  ASSERT_LE(header.size(), 184u);
  header.resize(184, ' ');
  std::string expected = with_length(header, 184);
  for (float x : {1.f, 4.f, 2.f, 5.f, 3.f, 6.f}) {
    const auto bytes = std::bit_cast<std::array<char, 4>>(x);
    expected.append(bytes.begin(), bytes.end());
  }
  expected += "\xff\x01";
  EXPECT_EQ(read_file(path_), expected);
}

TEST_F(SafetensorsFiles, GivesBackEveryDTypeBitForBit) {
  std::vector<NamedTensor> tensors;
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i8, DType::i32, DType::i64}) {
    Tensor t = Tensor::empty({3, 5}, dtype);
    for (size_t i = 0; i < 15 * size_of(dtype); ++i) t.raw()[i] = std::byte(i * 37 + size_t(dtype));
    tensors.push_back({"t." + to_string(dtype), t});
  }
  tensors.push_back({"empty", Tensor::empty({4, 0, 2})});
  tensors.push_back({"scalar", Tensor::full({}, 3)});
  save_safetensors(path_, tensors);
  const auto file = SafetensorsFile::open(path_);
  Names names;
  for (const auto& [name, tensor] : tensors) {
    names.push_back(name);
    const Tensor read = file.tensor(name);
    EXPECT_EQ(read.dtype(), tensor.dtype());
    EXPECT_EQ(read.shape(), tensor.shape());
    EXPECT_EQ(std::memcmp(read.raw(), tensor.raw(), size_t(tensor.numel()) * size_of(tensor.dtype())), 0) << name;
  }
  EXPECT_EQ(file.names(), names);
  EXPECT_TRUE(file.metadata().empty());
}

TEST_F(SafetensorsFiles, GivesOutTensorsThatOutliveTheFile) {
  const NamedTensor tensors[] = {{"w", Tensor::full({1000}, 2.5)}};
  save_safetensors(path_, tensors);
  Tensor kept, again;
  const size_t before = memory_stats().in_use;
  {
    const auto file = SafetensorsFile::open(path_);
    kept = file.tensor("w");
    again = file.tensor("w");
  }
  EXPECT_EQ(memory_stats().in_use, before) << "an aligned tensor is not copied";
  EXPECT_EQ(kept.raw(), again.raw());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(kept.raw()) % 64, 0u);
  fs::remove(path_);
  EXPECT_EQ(kept.at({999}), 2.5);
}

TEST_F(SafetensorsFiles, ChangesToATensorStayInMemory) {
  const NamedTensor tensors[] = {{"w", Tensor::full({4}, 2.5)}};
  save_safetensors(path_, tensors);
  SafetensorsFile::open(path_).tensor("w").fill(7);
  EXPECT_EQ(SafetensorsFile::open(path_).tensor("w").to_vector(), Values(4, 2.5));
}

TEST_F(SafetensorsFiles, RefusesToWriteWhatItWouldNotRead) {
  const Tensor t = Tensor::zeros({1});
  const auto error_when_saving = [&](std::vector<NamedTensor> tensors, std::map<std::string, std::string> metadata) {
    try {
      save_safetensors(path_, tensors, metadata);
    } catch (const FileError& error) {
      EXPECT_FALSE(fs::exists(path_));
      return std::string(error.what()).substr(path_.string().size());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(error_when_saving({{"a", t}, {"a", t}}, {}), ": two tensors have the name 'a'");
  EXPECT_EQ(error_when_saving({{"__metadata__", t}}, {}), ": no tensor can have the name __metadata__");
  EXPECT_EQ(error_when_saving({{"a", Tensor()}}, {}), ": tensor 'a' has no value");
  EXPECT_EQ(error_when_saving({{"\xff", t}}, {}), R"(: a name or metadata text is not valid UTF-8: "\ufffd")");
  EXPECT_EQ(error_when_saving({{"a", t}}, {{"k", "v\xc3"}}),
            R"(: a name or metadata text is not valid UTF-8: "v\ufffd")");
  EXPECT_EQ(error_when_saving({}, {{"k", std::string(100'000'000, 'x')}}),
            ": the header would have 100000056 bytes, at most 100000000 are allowed");
}

TEST_F(SafetensorsFiles, AFullDiskLeavesTheOldWeights) {
  const NamedTensor old_tensors[] = {{"w", Tensor::full({4}, 1)}};
  save_safetensors(path_, old_tensors);
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      const NamedTensor new_tensors[] = {{"w", Tensor::full({4000}, 2)}};
      save_safetensors(path_, new_tensors);
    } catch (const FileError&) {
      _exit(0);
    }
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(SafetensorsFile::open(path_).tensor("w").to_vector(), Values(4, 1));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(SafetensorsFiles, OpeningNamesTheFile) {
  write_file_atomically(path_, "short");
  try {
    SafetensorsFile::open(path_);
    FAIL();
  } catch (const FileError& error) {
    EXPECT_EQ(error.what(), path_.string() + ": has 5 bytes, a safetensors file has at least 8");
  }
  EXPECT_THROW(SafetensorsFile::open(folder_ / "missing"), FileError);
  EXPECT_THROW(SafetensorsFile::open(folder_), FileError);
  write_file_atomically(path_, "");
  EXPECT_THROW(SafetensorsFile::open(path_), FileError);
}

TEST(Safetensors, AcceptsAHeaderWithoutTensors) {
  EXPECT_EQ(error_of(file_of("{}")), "accepted");
  EXPECT_EQ(error_of(file_of("{}     \n")), "accepted");
  EXPECT_EQ(error_of(file_of(R"({"__metadata__": {}})")), "accepted");
}

TEST(Safetensors, RefusesAWrongHeaderLength) {
  EXPECT_EQ(error_of(""), "has 0 bytes, a safetensors file has at least 8");
  EXPECT_EQ(error_of(with_length("{}", 3)), "the header should have 3 bytes, only 2 follow: the file is cut");
  EXPECT_EQ(error_of(with_length("{}", 100'000'001)),
            "the header should have 100000001 bytes, at most 100000000 are allowed");
  EXPECT_EQ(error_of(with_length("{}", UINT64_MAX)),
            "the header should have 18446744073709551615 bytes, at most 100000000 are allowed");
}

TEST(Safetensors, RefusesAHeaderThatIsNotAJsonObject) {
  EXPECT_EQ(error_of(file_of("")), "the header does not begin with '{'");
  EXPECT_EQ(error_of(file_of("[]")), "the header does not begin with '{'");
  EXPECT_EQ(error_of(file_of(" {}")), "the header does not begin with '{'");
  EXPECT_EQ(error_of(file_of("\xef\xbb\xbf{}")), "the header does not begin with '{'");
  for (const char* header : {"{", "{}}", "{} x", "{\"a\":}", "{\"\xff\": 1}", "{'a': 1}"})
    EXPECT_TRUE(error_of(file_of(header)).starts_with("not valid JSON: ")) << header;
  EXPECT_EQ(error_of(file_of(std::string_view("{}\0", 3))), "not valid JSON: byte 2 has the value zero");
  EXPECT_EQ(error_of(file_of(R"({"a":)" + std::string(5000000, '['))), "nested deeper than 64 levels");
}

TEST(Safetensors, RefusesDuplicateKeysAtEveryLevel) {
  const std::string entry = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_EQ(error_of(file_of(fmt::format(R"({{"a":{0},"a":{0}}})", entry), 4)), "the key 'a' appears twice");
  EXPECT_EQ(error_of(file_of(fmt::format(R"({{"a":{0},"\u0061":{0}}})", entry), 4)), "the key 'a' appears twice");
  EXPECT_EQ(error_of(file_of(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4)),
            "the key 'dtype' appears twice");
  EXPECT_EQ(error_of(file_of(R"({"__metadata__":{"k":"1","k":"2"}})")), "the key 'k' appears twice");
}

TEST(Safetensors, RefusesWrongMetadata) {
  EXPECT_EQ(error_of(file_of(R"({"__metadata__":[]})")), "__metadata__ is a list, an object is needed");
  EXPECT_EQ(error_of(file_of(R"({"__metadata__":{"k":1}})")), "__metadata__ has 'k' as 1, a string is needed");
}

/// One tensor with this entry over four bytes of data.
std::string entry_error(std::string_view entry) { return error_of(file_of(fmt::format(R"({{"w":{}}})", entry), 4)); }

TEST(Safetensors, RefusesAWrongEntry) {
  EXPECT_EQ(entry_error("3"), "tensor 'w': is 3, an object is needed");
  EXPECT_EQ(entry_error(R"({"shape":[1],"data_offsets":[0,4]})"), "tensor 'w': has no 'dtype'");
  EXPECT_EQ(entry_error(R"({"dtype":"F32","data_offsets":[0,4]})"), "tensor 'w': has no 'shape'");
  EXPECT_EQ(entry_error(R"({"dtype":"F32","shape":[1]})"), "tensor 'w': has no 'data_offsets'");
  EXPECT_EQ(entry_error(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"strides":[1]})"),
            "tensor 'w': has an unknown key 'strides'");
  EXPECT_EQ(entry_error(R"({"dtype":7,"shape":[1],"data_offsets":[0,4]})"),
            "tensor 'w': the dtype is 7, a string is needed");
  EXPECT_EQ(entry_error(R"({"dtype":"F33","shape":[1],"data_offsets":[0,4]})"), "tensor 'w': unknown dtype 'F33'");
  EXPECT_EQ(entry_error(R"({"dtype":"U32","shape":[1],"data_offsets":[0,4]})"),
            "tensor 'w': tensors of U32 cannot be held; convert it first");
}

std::string shape_error(std::string_view shape) {
  return entry_error(fmt::format(R"({{"dtype":"F32","shape":{},"data_offsets":[0,4]}})", shape));
}

TEST(Safetensors, RefusesAWrongShape) {
  constexpr const char* kWhole = ", whole numbers from 0 to 2^63 - 1 are needed";
  EXPECT_EQ(shape_error("[1]"), "accepted");
  EXPECT_EQ(shape_error("[]"), "accepted");
  EXPECT_EQ(shape_error("4"), "tensor 'w': 'shape' is 4, a list is needed");
  EXPECT_EQ(shape_error("[-1]"), std::string("tensor 'w': 'shape' holds -1") + kWhole);
  EXPECT_EQ(shape_error("[1.0]"), std::string("tensor 'w': 'shape' holds 1.0") + kWhole);
  EXPECT_EQ(shape_error("[\"1\"]"), std::string("tensor 'w': 'shape' holds a string") + kWhole);
  EXPECT_EQ(shape_error("[9223372036854775808]"),
            std::string("tensor 'w': 'shape' holds 9223372036854775808") + kWhole);
  EXPECT_EQ(shape_error("[2305843009213693952]"), "tensor 'w': the shape [2305843009213693952] is too large");
  EXPECT_EQ(shape_error("[4294967296, 4294967297]"), "tensor 'w': the shape [4294967296, 4294967297] is too large");
  EXPECT_EQ(shape_error("[0, 4294967296, 4294967296]"),
            "tensor 'w': the shape [0, 4294967296, 4294967296] is too large");
  EXPECT_EQ(shape_error("[1, 1, 1, 1, 1, 1, 1]"), "tensor 'w': 7 axes, at most 6 can be held");
  EXPECT_EQ(shape_error("[2]"), "tensor 'w': data offsets [0, 4] hold 4 bytes, F32 of shape [2] needs 8");
  EXPECT_EQ(shape_error("[0]"), "tensor 'w': data offsets [0, 4] hold 4 bytes, F32 of shape [0] needs 0");
  EXPECT_EQ(shape_error("[1, 1, 1, 1, 1, 1, 1, 1, 1, 2]"),
            "tensor 'w': data offsets [0, 4] hold 4 bytes, F32 of shape [1, 1, 1, 1, 1, 1, 1, 1, ...] needs 8");
}

std::string offsets_error(std::string_view offsets) {
  return entry_error(fmt::format(R"({{"dtype":"F32","shape":[1],"data_offsets":{}}})", offsets));
}

TEST(Safetensors, RefusesWrongOffsets) {
  EXPECT_EQ(offsets_error("[0, 4]"), "accepted");
  EXPECT_EQ(offsets_error("{}"), "tensor 'w': 'data_offsets' is an object, a list is needed");
  EXPECT_EQ(offsets_error("[0]"), "tensor 'w': 1 data offsets, two are needed");
  EXPECT_EQ(offsets_error("[0, 4, 4]"), "tensor 'w': 3 data offsets, two are needed");
  EXPECT_EQ(offsets_error("[4, 0]"), "tensor 'w': data offsets [4, 0] are not within the 4 bytes of data");
  EXPECT_EQ(offsets_error("[4, 8]"), "tensor 'w': data offsets [4, 8] are not within the 4 bytes of data");
  EXPECT_EQ(offsets_error("[9223372036854775803, 9223372036854775807]"),
            "tensor 'w': data offsets [9223372036854775803, 9223372036854775807] are not within the 4 bytes of data");
  EXPECT_EQ(offsets_error("[0, 18446744073709551615]"),
            "tensor 'w': 'data_offsets' holds 18446744073709551615, whole numbers from 0 to 2^63 - 1 are needed");
}

/// Tensors of bytes at these places.
std::string coverage_error(const std::vector<std::pair<size_t, size_t>>& places, size_t data_bytes) {
  std::vector<std::string> entries;
  for (const auto& [begin, end] : places)
    entries.push_back(fmt::format(R"("t{}":{{"dtype":"I8","shape":[{}],"data_offsets":[{},{}]}})", entries.size(),
                                  end - begin, begin, end));
  return error_of(file_of(fmt::format("{{{}}}", fmt::join(entries, ",")), data_bytes));
}

TEST(Safetensors, RefusesOverlapsAndHoles) {
  EXPECT_EQ(coverage_error({{4, 8}, {0, 4}, {4, 4}, {8, 8}}, 8), "accepted");
  EXPECT_EQ(coverage_error({{0, 5}, {4, 8}}, 8), "tensor 't1': begins at byte 4, inside 't0', which ends at 5");
  EXPECT_EQ(coverage_error({{0, 4}, {0, 4}}, 4), "tensor 't1': begins at byte 0, inside 't0', which ends at 4");
  EXPECT_EQ(coverage_error({{0, 4}, {2, 2}}, 4), "tensor 't1': begins at byte 2, inside 't0', which ends at 4");
  EXPECT_EQ(coverage_error({{0, 4}, {5, 8}}, 8),
            "tensor 't1': begins at byte 5, and no tensor covers the data from 4 on");
  EXPECT_EQ(coverage_error({{1, 4}}, 4), "tensor 't0': begins at byte 1, and no tensor covers the data from 0 on");
  EXPECT_EQ(coverage_error({{0, 4}}, 5), "the tensors cover 4 bytes of data, the file has 5");
  EXPECT_EQ(coverage_error({}, 1), "the tensors cover 0 bytes of data, the file has 1");
}

TEST(Safetensors, RefusesAFileCutAnywhere) {
  const std::string whole = read_file(RAPT_TEST_DATA "/golden.safetensors");
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_THROW(parse(std::string_view(whole).substr(0, length)), FileError) << length;
  EXPECT_THROW(parse(whole + "x"), FileError);
}

TEST(Safetensors, NeverCrashesOnAFlippedBit) {
  const std::string whole = read_file(RAPT_TEST_DATA "/golden.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, whole.data(), 8);
  size_t refused = 0;
  for (size_t bit = 0; bit < 8 * (8 + header); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = char(flipped[bit / 8] ^ (1 << bit % 8));
    try {
      const SafetensorsFile file = parse(flipped);
      for (const std::string& name : file.names())
        if (name != "mask") file.tensor(name).to_vector();
    } catch (const FileError&) {
      ++refused;
    }
  }
  // Only a bit inside a name, a metadata text or between dtypes of one size can go unnoticed.
  EXPECT_GT(refused, 5 * header);
}

TEST(Safetensors, OpensAHeaderOfManyTensorsQuickly) {
  std::string header = "{";
  constexpr size_t kTensors = 50000;
  for (size_t i = 0; i < kTensors; ++i)
    header +=
        fmt::format(R"({}"layer.{}.w":{{"dtype":"I8","shape":[1],"data_offsets":[{},{}]}})", i ? "," : "", i, i, i + 1);
  const auto begin = std::chrono::steady_clock::now();
  const SafetensorsFile file = parse(file_of(header + "}", kTensors));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30))
      << "quadratic in the number of tensors?";
  ASSERT_EQ(file.names().size(), kTensors);
  EXPECT_EQ(file.names()[49876], "layer.49876.w");
}

}  // namespace
}  // namespace rapt
