#include <base/json.hpp>

#include <algorithm>
#include <vector>

namespace rapt {

namespace {

enum class Bytes { utf8, any };

/// Control characters, and of `any` bytes all that are not ASCII, as \x1f; cut between characters after `limit` bytes.
std::string printable(std::string_view text, Bytes bytes, size_t limit) {
  size_t end = std::min(limit, text.size());
  while (end > 0 && end < text.size() && (text[end] & 0xC0) == 0x80) --end;
  std::string out;
  for (unsigned char c : text.substr(0, end)) {
    if (c < 0x20 || c == 0x7F || (c > 0x7F && bytes == Bytes::any))
      out += fmt::format("\\x{:02x}", unsigned{c});
    else
      out += char(c);
  }
  return text.size() > end ? out + "..." : out;
}

/// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..." without the first bracket. The
/// text quotes the input, so it may be long and hold any byte.
std::string plain_reason(const std::exception& error) {
  std::string_view text = error.what();
  if (const size_t bracket = text.find("] "); bracket != text.npos) text.remove_prefix(bracket + 2);
  return "not valid JSON: " + printable(text, Bytes::any, 200);
}

/// Builds the value as nlohmann's own builder does, except that a second equal key (there the last one stays) and depth
/// without limit end the parse. A parser callback could watch for both, but its cost is quadratic in the number of keys.
class StrictBuilder : public nlohmann::json_sax<Json> {
 public:
  Json root;
  std::string fault;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& value) override { return add(std::move(value)); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& key) override {
    const auto [entry, fresh] = open_.back()->emplace(key, nullptr);
    if (!fresh) fault = fmt::format("the key {} appears twice", in_quotes(key));
    member_ = &*entry;
    return fresh;
  }
  bool parse_error(size_t, const std::string&, const Json::exception& error) override {
    fault = plain_reason(error);
    return false;
  }

 private:
  Json* place(Json value) {
    Json* slot = &root;
    if (!open_.empty() && open_.back()->is_array())
      slot = &open_.back()->emplace_back();
    else if (!open_.empty())
      slot = member_;
    *slot = std::move(value);
    return slot;
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json empty) {
    if (open_.size() == size_t(kMaxJsonDepth)) {
      fault = fmt::format("nested deeper than {} levels", kMaxJsonDepth);
      return false;
    }
    open_.push_back(place(std::move(empty)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<Json*> open_;  ///< the objects and lists around the next value; these do not move while they are open
  Json* member_ = nullptr;   ///< where the value of the last key goes
};

}  // namespace

std::optional<Json> try_parse_json(std::string_view text, std::string& fault) {
  // The parser takes a zero byte for the end of the text and would not look at what follows.
  if (const size_t zero = text.find('\0'); zero != text.npos) {
    fault = fmt::format("not valid JSON: byte {} has the value zero", zero);
    return std::nullopt;
  }
  StrictBuilder builder;
  if (Json::sax_parse(text.begin(), text.end(), &builder)) return std::move(builder.root);
  fault = std::move(builder.fault);
  return std::nullopt;
}

std::string in_quotes(std::string_view foreign) { return "'" + printable(foreign, Bytes::utf8, 80) + "'"; }

std::string kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::boolean: return value.get<bool>() ? "true" : "false";
    case Json::value_t::string: return "a string";
    case Json::value_t::array: return "a list";
    case Json::value_t::object: return "an object";
    default: return value.dump();
  }
}

}  // namespace rapt
