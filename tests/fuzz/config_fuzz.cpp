#include <models/config_reader.hpp>

#include <cstdlib>

using namespace rapt;

namespace {

enum class Norm { pre, post };
constexpr EnumName<Norm> kNormNames[] = {{"pre", Norm::pre}, {"post", Norm::post}};

struct EveryKind {
  int64_t wide = 1;
  int narrow = 1;
  int8_t tiny = 1;
  double real = 0.5;
  bool flag = false;
  std::string text;
  Norm norm = Norm::pre;
  std::optional<int64_t> maybe;
  std::optional<std::string> maybe_text;
  bool operator==(const EveryKind&) const = default;
};

template <class Archive>
void describe(Archive& a, EveryKind& c) {
  a.ignore({"skip"});
  a.constant("type", "toy");
  a.required("wide", c.wide);
  a("narrow", c.narrow, at_least(1));
  a("tiny", c.tiny);
  a("real", c.real, half_open(0.0, 1.0));
  a("flag", c.flag);
  a("text", c.text);
  a("norm", c.norm, kNormNames);
  a("maybe", c.maybe, above(0));
  a("maybe_text", c.maybe_text);
}

}  // namespace

/// Any text: either a ConfigError, or a config that is the same after writing and reading it again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  EveryKind config;
  try {
    config = read_config<EveryKind>({reinterpret_cast<const char*>(data), size}, "input");
  } catch (const ConfigError&) {
    return 0;
  }
  if (read_config<EveryKind>(write_config(config), "output") != config) std::abort();
  return 0;
}
