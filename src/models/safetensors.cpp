#include <base/files.hpp>
#include <base/json.hpp>
#include <rapt/models/safetensors.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <set>

namespace rapt {

namespace {

static_assert(std::endian::native == std::endian::little, "the data of a safetensors file is little-endian");

constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxHeader = 100'000'000;  // the limit of the format's own implementation
constexpr size_t kDataAlignment = 64;
constexpr std::string_view kMetadataKey = "__metadata__";

/// What the format has, and what of it a Tensor holds. Files with masks in BOOL or U8 beside the weights are common, so
/// those are understood, and refused only when asked for.
struct FormatType {
  std::string_view name;
  size_t size;
  std::optional<DType> dtype;
};
constexpr FormatType kFormatTypes[] = {
    {"F64", 8, DType::f64},   {"F32", 4, DType::f32},       {"BF16", 2, DType::bf16},     {"F16", 2, DType::f16},
    {"I8", 1, DType::i8},     {"I32", 4, DType::i32},       {"I64", 8, DType::i64},       {"BOOL", 1, std::nullopt},
    {"U8", 1, std::nullopt},  {"U16", 2, std::nullopt},     {"U32", 4, std::nullopt},     {"U64", 8, std::nullopt},
    {"I16", 2, std::nullopt}, {"F8_E4M3", 1, std::nullopt}, {"F8_E5M2", 1, std::nullopt},
};

const FormatType* format_type(std::string_view name) {
  const auto* found = std::ranges::find(kFormatTypes, name, &FormatType::name);
  return found == std::end(kFormatTypes) ? nullptr : found;
}

std::string_view format_name(DType dtype) {
  return std::ranges::find(kFormatTypes, std::optional(dtype), &FormatType::dtype)->name;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// "[2, 3]"; a hostile shape of a million axes is cut.
std::string shape_text(const std::vector<int64_t>& shape) {
  constexpr size_t kShown = 8;
  const auto shown = std::span(shape).first(std::min(shape.size(), kShown));
  return fmt::format("[{}{}]", fmt::join(shown, ", "), shape.size() > kShown ? ", ..." : "");
}

}  // namespace

/// Turns the bytes of a file into the entries of a SafetensorsFile, or throws.
class SafetensorsFile::HeaderReader {
 public:
  explicit HeaderReader(SafetensorsFile& file) : file_(file) {}

  void read(std::span<const std::byte> bytes) {
    require<FileError>(bytes.size() >= kLengthBytes, "{}: has {} bytes, a safetensors file has at least {}",
                       file_.label_, bytes.size(), kLengthBytes);
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), kLengthBytes);
    bytes = bytes.subspan(kLengthBytes);
    require<FileError>(length <= kMaxHeader, "{}: the header should have {} bytes, at most {} are allowed",
                       file_.label_, length, kMaxHeader);
    require<FileError>(length <= bytes.size(), "{}: the header should have {} bytes, only {} follow: the file is cut",
                       file_.label_, length, bytes.size());
    file_.data_ = bytes.subspan(length);
    const std::string_view text = as_text(bytes.first(length));
    require<FileError>(text.starts_with('{'), "{}: the header does not begin with '{{'", file_.label_);
    read_header(parse_json<FileError>(text, file_.label_));
    check_coverage();
  }

 private:
  template <class... Args>
  void check(bool condition, std::string_view name, fmt::format_string<Args...> text, Args&&... args) const {
    if (condition) return;
    fail<FileError>("{}: tensor {}: {}", file_.label_, in_quotes(name), fmt::format(text, std::forward<Args>(args)...));
  }

  void read_header(const Json& header) {
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadataKey)
        read_metadata(value);
      else
        file_.entries_.emplace(name, read_entry(name, value));
    }
  }

  void read_metadata(const Json& value) {
    require<FileError>(value.is_object(), "{}: {} is {}, an object is needed", file_.label_, kMetadataKey,
                       kind_of(value));
    for (const auto& [key, text] : value.items()) {
      require<FileError>(text.is_string(), "{}: {} has {} as {}, a string is needed", file_.label_, kMetadataKey,
                         in_quotes(key), kind_of(text));
      file_.metadata_.emplace(key, text.get<std::string>());
    }
  }

  Entry read_entry(std::string_view name, const Json& value) const {
    check(value.is_object(), name, "is {}, an object is needed", kind_of(value));
    for (const char* key : {"dtype", "shape", "data_offsets"}) check(value.contains(key), name, "has no '{}'", key);
    for (const auto& [key, ignored] : value.items())
      check(key == "dtype" || key == "shape" || key == "data_offsets", name, "has an unknown key {}", in_quotes(key));
    const Json& dtype = value["dtype"];
    check(dtype.is_string(), name, "the dtype is {}, a string is needed", kind_of(dtype));
    Entry entry{.dtype = dtype.get<std::string>(), .shape = read_numbers(name, "shape", value["shape"])};
    const std::vector<int64_t> offsets = read_numbers(name, "data_offsets", value["data_offsets"]);
    check(offsets.size() == 2, name, "{} data offsets, two are needed", offsets.size());
    entry.begin = size_t(offsets[0]);
    entry.end = size_t(offsets[1]);
    check_sizes(name, entry);
    return entry;
  }

  std::vector<int64_t> read_numbers(std::string_view name, std::string_view key, const Json& list) const {
    check(list.is_array(), name, "'{}' is {}, a list is needed", key, kind_of(list));
    std::vector<int64_t> numbers;
    for (const Json& item : list) {
      // The parser gives a whole number that is not negative as an unsigned one.
      const bool whole = item.is_number_unsigned() && item.get<uint64_t>() <= uint64_t(INT64_MAX);
      check(whole, name, "'{}' holds {}, whole numbers from 0 to 2^63 - 1 are needed", key, kind_of(item));
      numbers.push_back(item.get<int64_t>());
    }
    return numbers;
  }

  void check_sizes(std::string_view name, const Entry& entry) const {
    const FormatType* type = format_type(entry.dtype);
    check(type != nullptr, name, "unknown dtype {}", in_quotes(entry.dtype));
    // A size of zero counts as one here: the strides of such a shape must not overflow either.
    int64_t bound = int64_t(type->size);
    bool empty = false;
    for (int64_t size : entry.shape) {
      check(!__builtin_mul_overflow(bound, std::max<int64_t>(size, 1), &bound), name, "the shape {} is too large",
            shape_text(entry.shape));
      empty |= size == 0;
    }
    const size_t needed = empty ? 0 : size_t(bound);
    check(entry.begin <= entry.end && entry.end <= file_.data_.size(), name,
          "data offsets [{}, {}] are not within the {} bytes of data", entry.begin, entry.end, file_.data_.size());
    check(entry.end - entry.begin == needed, name, "data offsets [{}, {}] hold {} bytes, {} of shape {} needs {}",
          entry.begin, entry.end, entry.end - entry.begin, entry.dtype, shape_text(entry.shape), needed);
  }

  void check_coverage() {
    struct Piece {
      const std::string* name;
      size_t begin, end;
    };
    std::vector<Piece> pieces;
    for (const auto& [name, entry] : file_.entries_) pieces.push_back({&name, entry.begin, entry.end});
    std::ranges::stable_sort(pieces, {}, [](const Piece& p) { return std::pair(p.begin, p.end); });
    size_t covered = 0;
    std::string_view before;
    for (const Piece& piece : pieces) {
      check(piece.begin >= covered, *piece.name, "begins at byte {}, inside {}, which ends at {}", piece.begin,
            in_quotes(before), covered);
      check(piece.begin == covered, *piece.name, "begins at byte {}, and no tensor covers the data from {} on",
            piece.begin, covered);
      covered = piece.end;
      before = *piece.name;
      file_.names_.push_back(*piece.name);
    }
    require<FileError>(covered == file_.data_.size(), "{}: the tensors cover {} bytes of data, the file has {}",
                       file_.label_, covered, file_.data_.size());
  }

  SafetensorsFile& file_;
};

SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> bytes, std::shared_ptr<void> owner,
                                       std::string label) {
  if (!owner) {
    auto copy = Storage::allocate(bytes.size());
    if (!bytes.empty()) std::memcpy(copy->data(), bytes.data(), bytes.size());
    bytes = {copy->data(), bytes.size()};
    owner = std::move(copy);
  }
  SafetensorsFile file;
  file.label_ = std::move(label);
  file.owner_ = std::move(owner);
  HeaderReader(file).read(bytes);
  return file;
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  auto mapped = MappedFile::open(path);
  const std::span<const std::byte> bytes = mapped->bytes();
  return parse(bytes, std::move(mapped), path.string());
}

Tensor SafetensorsFile::tensor(std::string_view name) const {
  const auto found = entries_.find(name);
  require<FileError>(found != entries_.end(), "{}: has no tensor {}", label_, in_quotes(name));
  const Entry& entry = found->second;
  const FormatType* type = format_type(entry.dtype);
  require<FileError>(type->dtype.has_value(), "{}: tensor {}: tensors of {} cannot be held; convert it first", label_,
                     in_quotes(name), entry.dtype);
  require<FileError>(entry.shape.size() <= size_t(Shape::kMaxRank), "{}: tensor {}: {} axes, at most {} can be held",
                     label_, in_quotes(name), entry.shape.size(), Shape::kMaxRank);
  const Shape shape(entry.shape);
  const auto bytes = data_.subspan(entry.begin, entry.end - entry.begin);
  Tensor tensor;
  if (bytes.empty() || reinterpret_cast<uintptr_t>(bytes.data()) % type->size != 0) {
    tensor = Tensor::empty(shape, *type->dtype);
    if (!bytes.empty()) std::memcpy(tensor.raw(), bytes.data(), bytes.size());
  } else {
    auto* memory = const_cast<std::byte*>(bytes.data());
    tensor = Tensor::over(Storage::borrow(memory, bytes.size(), owner_), 0, shape, *type->dtype);
  }
  return tensor.set_name(found->first);
}

namespace {

/// A JSON string; text that is not UTF-8 cannot be one.
std::string json_string(const std::filesystem::path& path, std::string_view text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    fail<FileError>("{}: a name or metadata text is not valid UTF-8: {}", path.string(),
                    Json(text).dump(-1, ' ', true, Json::error_handler_t::replace));
  }
}

/// The header with its length in front and spaces behind, so that the data begins at a multiple of kDataAlignment.
std::string header_text(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::vector<std::string> parts;
  if (!metadata.empty()) {
    std::vector<std::string> texts;
    for (const auto& [key, value] : metadata) texts.push_back(json_string(path, key) + ":" + json_string(path, value));
    parts.push_back(fmt::format("\"{}\":{{{}}}", kMetadataKey, fmt::join(texts, ",")));
  }
  size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const size_t end = offset + size_t(tensor.numel()) * size_of(tensor.dtype());
    parts.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", json_string(path, name),
                                format_name(tensor.dtype()), fmt::join(tensor.shape(), ","), offset, end));
    offset = end;
  }
  std::string json = fmt::format("{{{}}}", fmt::join(parts, ","));
  json.resize((kLengthBytes + json.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment - kLengthBytes, ' ');
  require<FileError>(json.size() <= kMaxHeader, "{}: the header would have {} bytes, at most {} are allowed",
                     path.string(), json.size(), kMaxHeader);
  const uint64_t length = json.size();
  std::string text(kLengthBytes, '\0');
  std::memcpy(text.data(), &length, kLengthBytes);
  return text + json;
}

}  // namespace

void save_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    require<FileError>(tensor.defined(), "{}: tensor '{}' has no value", path.string(), name);
    require<FileError>(name != kMetadataKey, "{}: no tensor can have the name {}", path.string(), kMetadataKey);
    require<FileError>(names.insert(name).second, "{}: two tensors have the name '{}'", path.string(), name);
  }
  const std::string header = header_text(path, tensors, metadata);
  write_file_atomically(path, [&](FileWriter& writer) {
    writer.write(header);
    for (const NamedTensor& named : tensors) {
      const Tensor packed = named.tensor.contiguous();
      writer.write(std::span<const std::byte>(packed.raw(), size_t(packed.numel()) * size_of(packed.dtype())));
    }
  });
}

}  // namespace rapt
