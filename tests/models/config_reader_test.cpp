#include <models/config_reader.hpp>

#include <gtest/gtest.h>

namespace rapt {
namespace {

enum class Norm { pre, post, none };
constexpr EnumName<Norm> kNormNames[] = {{"pre", Norm::pre}, {"post", Norm::post}};

struct ToyConfig {
  int64_t d_model = 512;
  int heads = 8;
  double dropout = 0.1;
  bool tied = true;
  std::string activation = "relu";
  Norm norm = Norm::post;
  std::optional<int64_t> inner = {};
  bool operator==(const ToyConfig&) const = default;
};

template <class Archive>
void describe(Archive& a, ToyConfig& c) {
  a.ignore({"architectures", "torch_dtype"});
  a.constant("model_type", "toy");
  a.required("d_model", c.d_model, between(1, 65536));
  a("heads", c.heads, at_least(1));
  a("dropout", c.dropout, half_open(0.0, 1.0));
  a("tied", c.tied);
  a("activation", c.activation);
  a("norm", c.norm, kNormNames);
  a("inner", c.inner, above(0));
}

ToyConfig read(std::string_view text) { return read_config<ToyConfig>(text, "config.json"); }

std::string error_of(std::string_view text) {
  try {
    read(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

/// The error for a file that is right except for one key.
std::string error_with(std::string_view entry) { return error_of(fmt::format(R"({{"d_model": 8, {}}})", entry)); }

TEST(ConfigReader, ReadsEveryKindOfMember) {
  const ToyConfig config = read(R"({"model_type": "toy", "architectures": ["Toy"], "d_model": 64, "heads": 4,
      "dropout": 0, "tied": false, "activation": "gelu", "norm": "pre", "inner": 256})");
  EXPECT_EQ(config, (ToyConfig{64, 4, 0.0, false, "gelu", Norm::pre, 256}));
}

TEST(ConfigReader, KeepsDefaultsForAbsentKeys) { EXPECT_EQ(read(R"({"d_model": 512})"), ToyConfig{}); }

TEST(ConfigReader, NullEmptiesAnOptionalMember) {
  EXPECT_EQ(read(R"({"d_model": 512, "inner": null})").inner, std::nullopt);
}

TEST(ConfigReader, WritesWhatItReads) {
  const ToyConfig config{64, 4, 0.30000000000000004, false, "gelu \"x\" \u00e4", Norm::pre, 256};
  EXPECT_EQ(read(write_config(config)), config);
}

TEST(ConfigWriter, KeepsTheOrderOfTheDescription) {
  EXPECT_EQ(write_config(ToyConfig{}), R"({
  "model_type": "toy",
  "d_model": 512,
  "heads": 8,
  "dropout": 0.1,
  "tied": true,
  "activation": "relu",
  "norm": "post",
  "inner": null
}
)");
}

TEST(ConfigWriter, RefusesWhatTheReaderWouldRefuse) {
  EXPECT_THROW(write_config(ToyConfig{.d_model = 0}), ConfigError);
  EXPECT_THROW(write_config(ToyConfig{.dropout = 1.0}), ConfigError);
  EXPECT_THROW(write_config(ToyConfig{.dropout = std::numeric_limits<double>::quiet_NaN()}), ConfigError);
  EXPECT_THROW(write_config(ToyConfig{.activation = "\xff"}), ConfigError);
  EXPECT_THROW(write_config(ToyConfig{.norm = Norm::none}), ConfigError);
}

TEST(ConfigReader, NamesTheTypeThatIsNeeded) {
  EXPECT_EQ(error_of(R"({"d_model": "512"})"), "config.json: 'd_model' is a string, a whole number is needed");
  EXPECT_EQ(error_of(R"({"d_model": 512.0})"), "config.json: 'd_model' is 512.0, a whole number is needed");
  EXPECT_EQ(error_of(R"({"d_model": true})"), "config.json: 'd_model' is true, a whole number is needed");
  EXPECT_EQ(error_of(R"({"d_model": null})"), "config.json: 'd_model' is null, a whole number is needed");
  EXPECT_EQ(error_with(R"("dropout": [0.1])"), "config.json: 'dropout' is a list, a number is needed");
  EXPECT_EQ(error_with(R"("tied": 1)"), "config.json: 'tied' is 1, true or false is needed");
  EXPECT_EQ(error_with(R"("activation": {})"), "config.json: 'activation' is an object, a string is needed");
  EXPECT_EQ(error_with(R"("inner": "x")"), "config.json: 'inner' is a string, a whole number is needed");
}

TEST(ConfigReader, NamesTheRangeThatIsNeeded) {
  EXPECT_EQ(error_of(R"({"d_model": 0})"), "config.json: 'd_model' is 0, from 1 to 65536 is needed");
  EXPECT_EQ(error_with(R"("heads": -1)"), "config.json: 'heads' is -1, from 1 to 2147483647 is needed");
  EXPECT_EQ(error_with(R"("heads": 4294967297)"), "config.json: 'heads' is 4294967297, from 1 to 2147483647 is needed");
  EXPECT_EQ(error_with(R"("heads": 18446744073709551615)"),
            "config.json: 'heads' is 18446744073709551615, from 1 to 2147483647 is needed");
  EXPECT_EQ(error_with(R"("dropout": 1.0)"), "config.json: 'dropout' is 1.0, from 0 to below 1 is needed");
  EXPECT_EQ(error_with(R"("inner": 0)"), "config.json: 'inner' is 0, above 0 is needed");
  EXPECT_EQ(error_with(R"("norm": "mid")"), "config.json: 'norm' is 'mid', one of pre, post is needed");
  EXPECT_EQ(error_with(R"("model_type": "bert")"), "config.json: 'model_type' is 'bert', 'toy' is needed");
}

TEST(ConfigReader, NamesUnknownKeysAndTheLikelyMeaning) {
  EXPECT_EQ(error_with(R"("d_modle": 8)"), "config.json: unknown key 'd_modle'; did you mean 'd_model'?");
  EXPECT_EQ(error_with(R"("zebra": 8)"), "config.json: unknown key 'zebra'");
}

TEST(ConfigReader, ReportsAllProblemsAtOnce) {
  EXPECT_EQ(error_of(R"({"d_modle": 8, "tied": 0, "dropuot": 0.1})"),
            "config.json: 'd_model' is missing\n"
            "config.json: 'tied' is 0, true or false is needed\n"
            "config.json: unknown key 'd_modle'; did you mean 'd_model'?\n"
            "config.json: unknown key 'dropuot'; did you mean 'dropout'?");
}

TEST(ConfigReader, EndsALongListOfProblemsWithACount) {
  std::string text = R"({"d_model": 8)";
  for (int i = 0; i < 1000; ++i) text += fmt::format(R"(, "key number {}": 0)", i);
  const std::string error = error_of(text + "}");
  EXPECT_TRUE(error.ends_with("\nconfig.json: and 980 more")) << error;
}

TEST(ConfigReader, RefusesAnythingButAnObject) {
  EXPECT_EQ(error_of("[1]"), "config.json: the whole is a list, an object {...} is needed");
  EXPECT_EQ(error_of("3"), "config.json: the whole is 3, an object {...} is needed");
}

TEST(ConfigReader, RefusesTextThatIsNotJson) {
  for (const char* text : {"", "{", "{\"d_model\": 8,}", "{\"d_model\": NaN}", "{\"d_model\": 1e999}", "{} {}",
                           "{\"d_model\": 8 /* units */}", "{\"\xc3\x28\": 8}", "{\"d_model\": 08}"})
    EXPECT_TRUE(error_of(text).starts_with("config.json: not valid JSON: ")) << text << "\n" << error_of(text);
  EXPECT_EQ(error_of(std::string_view("{\"d_model\": 8}\0hidden", 21)),
            "config.json: not valid JSON: byte 14 has the value zero");
}

TEST(ConfigReader, RefusesDuplicateKeysAtEveryLevel) {
  EXPECT_EQ(error_of(R"({"d_model": 8, "d_model": 9})"), "config.json: the key 'd_model' appears twice");
  EXPECT_EQ(error_of(R"({"d_model": 8, "torch_dtype": [{"a": 1, "a": 1}]})"), "config.json: the key 'a' appears twice");
}

TEST(ConfigReader, RefusesDeepNesting) {
  for (size_t depth : {size_t(64), size_t(1) << 20})
    EXPECT_EQ(error_of(R"({"torch_dtype": )" + std::string(depth, '[')), "config.json: nested deeper than 64 levels");
  const std::string deepest = std::string(63, '[') + std::string(63, ']');
  EXPECT_EQ(error_with(R"("torch_dtype": )" + deepest), "accepted");
}

TEST(ConfigReader, KeepsErrorsShortAndPrintable) {
  const std::string error = error_of("{\"" + std::string(100000, 'x') + "\n");
  EXPECT_LT(error.size(), 400u);
  for (unsigned char c : error) EXPECT_TRUE(c >= 0x20 && c < 0x7F);
  std::string umlauts;
  for (int i = 0; i < 60; ++i) umlauts += "\u00e4";
  EXPECT_EQ(error_with(fmt::format(R"("x{}": 0)", umlauts)),
            fmt::format("config.json: unknown key 'x{}...'", umlauts.substr(0, 78)));
  EXPECT_EQ(error_with(R"("\u001b[2J": 0)"), "config.json: unknown key '\\x1b[2J'");
}

}  // namespace
}  // namespace rapt
