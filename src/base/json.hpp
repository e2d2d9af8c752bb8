#pragma once
#include <base/fail.hpp>

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace rapt {

using Json = nlohmann::json;

inline constexpr int kMaxJsonDepth = 64;

/// JSON as RFC 8259 has it, and stricter where readers disagree: a key named twice in an object, a byte of value zero,
/// text that is not UTF-8, numbers beyond the range of a double and more than kMaxJsonDepth levels are refused.
/// Returns nothing and says why in `fault` when the text is refused.
std::optional<Json> try_parse_json(std::string_view text, std::string& fault);

/// The same for callers that throw: `parse_json<ConfigError>(text, "config.json")`.
template <class E>
Json parse_json(std::string_view text, std::string_view label) {
  std::string fault;
  std::optional<Json> json = try_parse_json(text, fault);
  require<E>(json.has_value(), "{}: {}", label, fault);
  return *std::move(json);
}

/// How a key or string of a file looks inside an error: 'so', without control characters, cut after 80 bytes.
/// `foreign` is UTF-8, as all strings of a parsed text are.
std::string in_quotes(std::string_view foreign);

/// "a string", "a list", "null", or the number itself: for "'d_model' is ..., a whole number is needed".
std::string kind_of(const Json& value);

}  // namespace rapt
