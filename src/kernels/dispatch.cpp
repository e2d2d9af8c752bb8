#include <kernels/dispatch.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>

namespace rapt::kernels {
namespace {

std::mutex mutex;
using Forced = std::map<std::string, std::string>;

Forced parse(const std::string& spec) {
  Forced result;
  const auto table = kernel_table();
  std::stringstream parts(spec);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto colon = part.find(':');
    require<KernelError>(colon != std::string::npos, "[kernels] '{}' is not of the form op:implementation", part);
    const std::string op = part.substr(0, colon), name = part.substr(colon + 1);
    const auto row = std::find_if(table.begin(), table.end(), [&](const TableRow& r) { return r.op == op; });
    require<KernelError>(row != table.end(), "[kernels] no operation is called '{}'", op);
    std::string known;
    bool exists = false, available = false;
    for (const auto& entry : row->implementations) {
      if (entry.available) known += (known.empty() ? "" : ", ") + entry.name;
      if (entry.name == name) exists = true, available = entry.available;
    }
    require<KernelError>(exists, "[{}] has no implementation '{}'; available here: {}", op, name, known);
    require<KernelError>(available, "[{}] '{}' needs instructions that this processor lacks; available here: {}", op,
                         name, known);
    require<KernelError>(result.emplace(op, name).second, "[kernels] '{}' is given twice", op);
  }
  return result;
}

Forced& forced_by_name() {
  static Forced forced = [] {
    const char* spec = std::getenv("RAPT_KERNEL");
    return parse(spec ? spec : "");
  }();
  return forced;
}

struct ProfileKey {
  std::string op, implementation;
  auto operator<=>(const ProfileKey&) const = default;
};
std::map<ProfileKey, ProfileRow> profile;

}  // namespace

std::atomic<uint64_t> detail::forced_generation{0};
std::atomic<bool> detail::profiling{false};

std::string detail::forced_name(const char* op) {
  std::lock_guard lock(mutex);
  const auto& forced = forced_by_name();
  const auto it = forced.find(op);
  return it == forced.end() ? "" : it->second;
}

void force_implementations(const std::string& spec) {
  const Forced parsed = parse(spec);
  std::lock_guard lock(mutex);
  forced_by_name() = parsed;
  ++detail::forced_generation;
}

void detail::add_to_profile(const char* op, const char* implementation, double seconds, double flops) {
  std::lock_guard lock(mutex);
  ProfileRow& row = profile[{op, implementation}];
  row.op = op;
  row.implementation = implementation;
  ++row.calls;
  row.seconds += seconds;
  row.flops += flops;
}

void start_profile() {
  std::lock_guard lock(mutex);
  profile.clear();
  detail::profiling = true;
}

std::vector<ProfileRow> stop_profile() {
  std::lock_guard lock(mutex);
  detail::profiling = false;
  std::vector<ProfileRow> rows;
  for (const auto& [key, row] : profile) rows.push_back(row);
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return rows;
}

}  // namespace rapt::kernels
