#include <base/json.hpp>

#include <gtest/gtest.h>

namespace rapt {
namespace {

std::string fault_of(std::string_view text) {
  std::string fault;
  return try_parse_json(text, fault) ? "accepted" : fault;
}

TEST(Json, BuildsTheSameValueAsTheLibrary) {
  for (const char* text : {"null", "true", "-3", "18446744073709551615", "0.1", "1e300", R"("\u00e4\n")", "[]", "{}",
                           R"([1, [2, []], {"a": [{}], "b": {"a": [null, 4]}}, "x"])",
                           R"({"z": 1, "a": {"z": [1, {"q": false}, 2], "b": "c"}, "": 0})"})
    EXPECT_EQ(parse_json<Error>(text, "text"), Json::parse(text)) << text;
}

TEST(Json, RefusesAKeyThatAppearsTwiceInOneObject) {
  EXPECT_EQ(fault_of(R"([{"a": 1, "b": {"a": 1}}, {"a": 2}])"), "accepted");
  EXPECT_EQ(fault_of(R"([{"a": 1, "b": {"c": 1, "c": 1}}])"), "the key 'c' appears twice");
}

TEST(Json, RefusesMoreThanTheGreatestDepth) {
  const auto nested = [](int depth) { return std::string(size_t(depth), '[') + std::string(size_t(depth), ']'); };
  EXPECT_EQ(fault_of(nested(kMaxJsonDepth)), "accepted");
  EXPECT_EQ(fault_of(nested(kMaxJsonDepth + 1)), "nested deeper than 64 levels");
}

TEST(Json, SaysWhereTheTextIsWrong) {
  EXPECT_TRUE(fault_of("[1,\n 2,]").starts_with("not valid JSON: parse error at line 2, column 4: "))
      << fault_of("[1,\n 2,]");
  EXPECT_TRUE(fault_of("1e999").starts_with("not valid JSON: number overflow")) << fault_of("1e999");
  EXPECT_EQ(fault_of(std::string_view("1\0", 2)), "not valid JSON: byte 1 has the value zero");
}

TEST(Json, ThrowsTheErrorOfTheCaller) {
  EXPECT_THROW(parse_json<FileError>("[", "x"), FileError);
  EXPECT_THROW(parse_json<ConfigError>("[", "x"), ConfigError);
}

TEST(Json, QuotesForeignTextShortAndPrintable) {
  EXPECT_EQ(in_quotes("a\n\x7f\u00e4"), "'a\\x0a\\x7f\u00e4'");
  EXPECT_EQ(in_quotes(std::string(81, 'x')), "'" + std::string(80, 'x') + "...'");
  EXPECT_EQ(in_quotes(std::string(79, 'x') + "\u00e4"), "'" + std::string(79, 'x') + "...'");
}

}  // namespace
}  // namespace rapt
