#include <models/config_reader.hpp>

#include <algorithm>
#include <cmath>

namespace rapt {

namespace {

constexpr size_t kMaxProblems = 20;

/// Edits (insert, drop, replace, swap of neighbours) that lead from `a` to `b`.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const size_t replace = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

/// "at least 1", "from 0 to below 1", "above 0".
template <class T>
std::string to_string(const Range<T>& range) {
  const bool low = range.low != std::numeric_limits<T>::lowest();
  const bool high = range.high != std::numeric_limits<T>::max();
  if (low && high)
    return fmt::format("{} {} to {}{}", range.low_open ? "above" : "from", range.low, range.high_open ? "below " : "",
                       range.high);
  if (low) return fmt::format("{} {}", range.low_open ? "above" : "at least", range.low);
  return fmt::format("{} {}", range.high_open ? "below" : "at most", range.high);
}

}  // namespace

ConfigReader::ConfigReader(Json json, std::string label) : json_(std::move(json)), label_(std::move(label)) {
  require<ConfigError>(json_.is_object(), "{}: the whole is {}, an object {{...}} is needed", label_, kind_of(json_));
}

const Json* ConfigReader::find(std::string_view key) {
  const auto name = known_.emplace(key).first;
  const auto found = json_.find(*name);
  return found == json_.end() ? nullptr : &*found;
}

void ConfigReader::require_key(std::string_view key) {
  if (!find(key)) problem(fmt::format("'{}' is missing", key));
}

void ConfigReader::wrong_type(std::string_view key, const Json& found, std::string_view needed) {
  problem(fmt::format("'{}' is {}, {} is needed", key, kind_of(found), needed));
}

bool ConfigReader::get(std::string_view key, bool& value) {
  const Json* found = find(key);
  if (!found) return false;
  if (!found->is_boolean()) {
    wrong_type(key, *found, "true or false");
    return false;
  }
  value = found->get<bool>();
  return true;
}

bool ConfigReader::get(std::string_view key, std::string& value) {
  const Json* found = find(key);
  if (!found) return false;
  if (!found->is_string()) {
    wrong_type(key, *found, "a string");
    return false;
  }
  value = found->get<std::string>();
  return true;
}

bool ConfigReader::get(std::string_view key, int64_t& value, IntegerRange range) {
  const Json* found = find(key);
  if (!found) return false;
  if (!found->is_number_integer()) {
    wrong_type(key, *found, "a whole number");
    return false;
  }
  const bool beyond = found->is_number_unsigned() && found->get<uint64_t>() > uint64_t(INT64_MAX);
  if (beyond || !range.holds(found->get<int64_t>())) {
    problem(fmt::format("'{}' is {}, {} is needed", key, found->dump(), to_string(range)));
    return false;
  }
  value = found->get<int64_t>();
  return true;
}

bool ConfigReader::get(std::string_view key, double& value, RealRange range) {
  const Json* found = find(key);
  if (!found) return false;
  if (!found->is_number()) {
    wrong_type(key, *found, "a number");
    return false;
  }
  const double number = found->get<double>();
  if (!range.holds(number)) {
    problem(fmt::format("'{}' is {}, {} is needed", key, found->dump(), to_string(range)));
    return false;
  }
  value = number;
  return true;
}

std::optional<size_t> ConfigReader::get_choice(std::string_view key, std::span<const std::string_view> choices) {
  std::string chosen;
  if (!get(key, chosen)) return std::nullopt;
  const auto at = std::find(choices.begin(), choices.end(), chosen);
  if (at != choices.end()) return size_t(at - choices.begin());
  problem(fmt::format("'{}' is {}, one of {} is needed", key, in_quotes(chosen), fmt::join(choices, ", ")));
  return std::nullopt;
}

void ConfigReader::constant(std::string_view key, std::string_view value) {
  std::string found(value);
  if (get(key, found) && found != value)
    problem(fmt::format("'{}' is {}, '{}' is needed", key, in_quotes(found), value));
}

void ConfigReader::ignore(std::initializer_list<std::string_view> keys) { known_.insert(keys.begin(), keys.end()); }

std::string ConfigReader::advice_for(std::string_view unknown) const {
  constexpr size_t kLongestName = 64;
  size_t nearest = unknown.size() / 3 + 1;
  std::string_view best;
  if (unknown.size() > kLongestName) return "";
  for (const std::string& name : known_) {
    if (const size_t distance = edit_distance(unknown, name); distance < nearest) {
      nearest = distance;
      best = name;
    }
  }
  return best.empty() ? "" : fmt::format("; did you mean '{}'?", best);
}

void ConfigReader::finish() const {
  std::vector<std::string> all = problems_;
  for (const auto& [key, value] : json_.items())
    if (!known_.contains(key)) all.push_back(fmt::format("unknown key {}{}", in_quotes(key), advice_for(key)));
  if (all.empty()) return;
  std::string text;
  for (size_t i = 0; i < std::min(all.size(), kMaxProblems); ++i)
    text += fmt::format("{}{}: {}", i ? "\n" : "", label_, all[i]);
  if (all.size() > kMaxProblems) text += fmt::format("\n{}: and {} more", label_, all.size() - kMaxProblems);
  throw ConfigError(text);
}

void ConfigWriter::check_range(std::string_view key, int64_t value, const IntegerRange& range) {
  require<ConfigError>(range.holds(value), "[config] '{}' is {}, {} is needed", key, value, to_string(range));
}

void ConfigWriter::check_range(std::string_view key, double value, const RealRange& range) {
  require<ConfigError>(std::isfinite(value), "[config] '{}' is {}, which JSON cannot hold", key, value);
  require<ConfigError>(range.holds(value), "[config] '{}' is {}, {} is needed", key, value, to_string(range));
}

std::string ConfigWriter::text() const {
  try {
    return json_.dump(2) + "\n";
  } catch (const Json::exception&) {
    fail<ConfigError>("[config] a string is not valid UTF-8: {}",
                      json_.dump(-1, ' ', true, Json::error_handler_t::replace));
  }
}

}  // namespace rapt
