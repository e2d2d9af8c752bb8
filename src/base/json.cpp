#include <base/json.hpp>

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

namespace rapt {

namespace {

struct Refused {
  std::string why;
};

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

/// nlohmann's parser keeps the last of two equal keys and follows any depth: this callback watches both.
class StrictObserver {
 public:
  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    switch (event) {
      case Event::object_start:
        check_depth(depth);
        keys_.emplace_back();
        break;
      case Event::array_start: check_depth(depth); break;
      case Event::object_end: keys_.pop_back(); break;
      case Event::key: {
        const auto& key = parsed.get_ref<const std::string&>();
        if (!keys_.back().insert(key).second) throw Refused{fmt::format("the key {} appears twice", in_quotes(key))};
        break;
      }
      default: break;
    }
    return true;
  }

 private:
  static void check_depth(int depth) {
    if (depth >= kMaxJsonDepth) throw Refused{fmt::format("nested deeper than {} levels", kMaxJsonDepth)};
  }
  std::vector<std::set<std::string>> keys_;
};

/// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..." without the first bracket. The
/// text quotes the input, so it may be long and hold any byte.
std::string plain_reason(const std::exception& error) {
  std::string_view text = error.what();
  if (const size_t bracket = text.find("] "); bracket != text.npos) text.remove_prefix(bracket + 2);
  return "not valid JSON: " + printable(text, Bytes::any, 200);
}

}  // namespace

std::optional<Json> try_parse_json(std::string_view text, std::string& fault) {
  // The parser takes a zero byte for the end of the text and would not look at what follows.
  if (const size_t zero = text.find('\0'); zero != text.npos) {
    fault = fmt::format("not valid JSON: byte {} has the value zero", zero);
    return std::nullopt;
  }
  try {
    StrictObserver observer;
    return Json::parse(text.begin(), text.end(), std::ref(observer));
  } catch (const Refused& refused) {
    fault = refused.why;
  } catch (const Json::exception& error) {
    fault = plain_reason(error);
  }
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
