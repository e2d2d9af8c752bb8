#pragma once
#include <base/json.hpp>
#include <rapt/base/error.hpp>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rapt {

/// One function describes the keys of a config for reading and for writing:
///
///     constexpr EnumName<Norm> kNormNames[] = {{"pre", Norm::pre}, {"post", Norm::post}};
///
///     template <class Archive>
///     void describe(Archive& a, EncoderDecoderConfig& c) {
///       a.ignore({"architectures", "torch_dtype", "transformers_version"});
///       a.constant("model_type", "marian");
///       a.required("d_model", c.d_model, at_least(1));
///       a("dropout", c.dropout, half_open(0.0, 1.0));
///       a("norm", c.norm, kNormNames);
///       a("n_inner", c.n_inner);  // std::optional<int64_t>: null when empty
///     }
///
///     auto c = read_config<EncoderDecoderConfig>(text, "config.json");
///     std::string text = write_config(c);
///
/// A member is a bool, a signed integer, a double, a string, an enum with its table of names, or a std::optional of the first
/// four. A key that the file does not have leaves the member as it is, unless it is `required`.

template <class E>
struct EnumName {
  std::string_view name;
  E value;
};

/// Which numbers are allowed; an open end is not among them.
template <class T>
struct Range {
  T low = std::numeric_limits<T>::lowest();
  T high = std::numeric_limits<T>::max();
  bool low_open = false;
  bool high_open = false;
  bool holds(T x) const { return (low_open ? x > low : x >= low) && (high_open ? x < high : x <= high); }
};
using IntegerRange = Range<int64_t>;
using RealRange = Range<double>;
template <class T>
using RangeFor = Range<std::conditional_t<std::integral<T>, int64_t, double>>;

template <class T>
constexpr RangeFor<T> at_least(T low) {
  return {.low = low};
}
template <class T>
constexpr RangeFor<T> above(T low) {
  return {.low = low, .low_open = true};
}
/// Both ends included.
template <class T>
constexpr RangeFor<T> between(T low, T high) {
  return {.low = low, .high = high};
}
/// `low` included, `high` not: a dropout rate is half_open(0.0, 1.0).
template <class T>
constexpr RangeFor<T> half_open(T low, T high) {
  return {.low = low, .high = high, .high_open = true};
}

template <class T>
concept WholeNumber = std::signed_integral<T>;

/// Fills a config from a JSON object. What is wrong is gathered, and `finish` throws it all at once, so that a user
/// mends a file in one go; a member whose key is wrong keeps its value till then.
class ConfigReader {
 public:
  /// Throws ConfigError when `json` is not an object. `label` begins every message.
  ConfigReader(Json json, std::string label);

  void operator()(std::string_view key, bool& value) { get(key, value); }
  void operator()(std::string_view key, std::string& value) { get(key, value); }
  template <WholeNumber T>
  void operator()(std::string_view key, T& value, IntegerRange range = {}) {
    get(key, value, range);
  }
  void operator()(std::string_view key, double& value, RealRange range = {}) { get(key, value, range); }
  template <class T, class... Rule>
  void operator()(std::string_view key, std::optional<T>& value, const Rule&... rule) {
    if (const Json* found = find(key); found && found->is_null())
      value.reset();
    else if (T read{}; found && get(key, read, rule...))
      value = std::move(read);
  }
  template <class E, size_t N>
  void operator()(std::string_view key, E& value, const EnumName<E> (&names)[N]) {
    std::vector<std::string_view> choices;
    for (const EnumName<E>& entry : names) choices.push_back(entry.name);
    if (const auto chosen = get_choice(key, choices)) value = names[*chosen].value;
  }

  /// As the call with the same arguments, and the key must be there.
  template <class T, class... Rule>
  void required(std::string_view key, T& value, const Rule&... rule) {
    require_key(key);
    (*this)(key, value, rule...);
  }
  /// The key, when it is there, must have this value.
  void constant(std::string_view key, std::string_view value);
  /// Keys that mean nothing here and may be there.
  void ignore(std::initializer_list<std::string_view> keys);

  /// Throws ConfigError with one line for each problem, unknown keys included.
  void finish() const;

 private:
  const Json* find(std::string_view key);
  void require_key(std::string_view key);
  void problem(std::string text) { problems_.push_back(std::move(text)); }
  void wrong_type(std::string_view key, const Json& found, std::string_view needed);

  // Each returns whether `value` was set.
  bool get(std::string_view key, bool& value);
  bool get(std::string_view key, std::string& value);
  bool get(std::string_view key, int64_t& value, IntegerRange range = {});
  bool get(std::string_view key, double& value, RealRange range = {});
  template <WholeNumber T>
  bool get(std::string_view key, T& value, IntegerRange range = {}) {
    range.high = std::min<int64_t>(range.high, std::numeric_limits<T>::max());
    range.low = std::max<int64_t>(range.low, std::numeric_limits<T>::lowest());
    int64_t wide = 0;
    if (!get(key, wide, range)) return false;
    value = T(wide);
    return true;
  }
  std::optional<size_t> get_choice(std::string_view key, std::span<const std::string_view> choices);
  std::string advice_for(std::string_view unknown) const;

  Json json_;
  std::string label_;
  std::set<std::string, std::less<>> known_;
  std::vector<std::string> problems_;
};

/// Writes the keys in the order of the description. A number that is not finite or outside its range and an enum value
/// without a name throw ConfigError at once: a file that the reader refuses is not written.
class ConfigWriter {
 public:
  void operator()(std::string_view key, bool value) { put(key, value); }
  void operator()(std::string_view key, const std::string& value) { put(key, value); }
  template <WholeNumber T>
  void operator()(std::string_view key, T value, IntegerRange range = {}) {
    check_range(key, int64_t(value), range);
    put(key, int64_t(value));
  }
  void operator()(std::string_view key, double value, RealRange range = {}) {
    check_range(key, value, range);
    put(key, value);
  }
  template <class T, class... Rule>
  void operator()(std::string_view key, const std::optional<T>& value, const Rule&... rule) {
    if (value)
      (*this)(key, *value, rule...);
    else
      put(key, nullptr);
  }
  template <class E, size_t N>
  void operator()(std::string_view key, const E& value, const EnumName<E> (&names)[N]) {
    for (const EnumName<E>& entry : names)
      if (entry.value == value) return put(key, std::string(entry.name));
    fail<ConfigError>("[config] '{}' has the value {}, which has no name", key, int64_t(value));
  }

  template <class T, class... Rule>
  void required(std::string_view key, const T& value, const Rule&... rule) {
    (*this)(key, value, rule...);
  }
  void constant(std::string_view key, std::string_view value) { put(key, std::string(value)); }
  void ignore(std::initializer_list<std::string_view>) {}

  /// Indented, with a newline at the end. A string that is not UTF-8 throws ConfigError.
  std::string text() const;

 private:
  void put(std::string_view key, nlohmann::ordered_json value) { json_[std::string(key)] = std::move(value); }
  static void check_range(std::string_view key, int64_t value, const IntegerRange& range);
  static void check_range(std::string_view key, double value, const RealRange& range);
  nlohmann::ordered_json json_ = nlohmann::ordered_json::object();
};

/// A config from JSON text, by its `describe`; what is wrong with it throws one ConfigError.
template <class Config>
Config read_config(std::string_view text, const std::string& label) {
  ConfigReader reader(parse_json<ConfigError>(text, label), label);
  Config config;
  describe(reader, config);
  reader.finish();
  return config;
}

template <class Config>
std::string write_config(Config config) {
  ConfigWriter writer;
  describe(writer, config);
  return writer.text();
}

}  // namespace rapt
