#include "sample_io/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"

namespace starling {
namespace {

using testing::ElementsAre;

// With a = 6, b = 4, c = -0.5, in the order of first use.
double Value(const std::string& text) {
  auto expression = Expression::Parse(text);
  EXPECT_TRUE(expression.ok()) << text << ": " << expression.status();
  std::vector<double> values;
  for (const std::string& column : expression->columns()) {
    values.push_back(column == "a" ? 6 : column == "b" ? 4 : -0.5);
  }
  return expression->Run(values);
}

TEST(ExpressionTest, BindsAsArithmeticDoes) {
  EXPECT_EQ(Value("a + b * 2"), 14);
  EXPECT_EQ(Value("(a + b) * 2"), 20);
  EXPECT_EQ(Value("a - b - 1"), 1);
  EXPECT_EQ(Value("a / b / 2"), 0.75);
  EXPECT_EQ(Value("-a + b"), -2);
  EXPECT_EQ(Value("a * -b"), -24);
  EXPECT_EQ(Value("a - -b"), 10);
  EXPECT_EQ(Value("--a"), 6);
  EXPECT_EQ(Value(" 1.5e1+a "), 21);
  EXPECT_EQ(Value("a < b + 3"), 1);
  EXPECT_EQ(Value("(a <= 6) + (a >= 7) + (a == 6) + (a != 6) + (a > b)"), 3);
}

TEST(ExpressionTest, KnowsItsFunctions) {
  EXPECT_EQ(Value("min(a, b, c)"), -0.5);
  EXPECT_EQ(Value("max(b, a, 5)"), 6);
  EXPECT_EQ(Value("log(a)"), std::log(6.0));
  EXPECT_EQ(Value("log1p(a)"), std::log1p(6.0));
  EXPECT_EQ(Value("exp(c)"), std::exp(-0.5));
  EXPECT_EQ(Value("sqrt(b)"), 2);
  EXPECT_EQ(Value("abs(c)"), 0.5);
  EXPECT_EQ(Value("floor(c)"), -1);
  EXPECT_EQ(Value("if(a > b, b, c)"), 4);
  EXPECT_EQ(Value("if(b - 4 == 0, 9, a / (b - 4))"), 9);
  EXPECT_EQ(Value("if(b - 4, 9, a)"), 6);
}

TEST(ExpressionTest, NamesItsColumnsOnceInOrder) {
  EXPECT_THAT(Expression::Parse("x.1 + min(`my col`, log) / x.1")->columns(),
              ElementsAre("x.1", "my col", "log"));
}

TEST(ExpressionTest, ErrorsNameTheCharacter) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "character 1: a number, a column or `(` is missing"},
      {"a +", "character 4: a number, a column or `(` is missing"},
      {"a + * b", "character 5: `* b` is no part of an expression"},
      {"(a + b", "character 7: the `(` of character 1 is not closed"},
      {"a b", "character 3: `b` is left over"},
      {"a < b < c", "character 7: `< c` is left over"},
      {"pow(a, 2)", "character 1: there is no function pow"},
      {"1 + min(a)", "character 5: min takes 2 or more arguments"},
      {"log(a, b)", "character 1: log takes 1 argument"},
      {"if(a, b)", "character 1: if takes 3 arguments"},
      {"exp(a", "character 6: the `(` of exp is not closed"},
      {"`a", "character 1: a column in backquotes is `name`"},
      {"1 + 2", "character 1: it reads no column"},
      {"a + .", "character 5: `.` is no number"},
      {"a % 2", "character 3: `% 2` is left over"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_EQ(Expression::Parse(text).status().message(), message) << text;
  }
}

TEST(ExpressionTest, DepthIsBounded) {
  const std::string deep = absl::StrCat(std::string(1000, '('), "a", std::string(1000, ')'));
  EXPECT_EQ(Expression::Parse(deep).status().code(), absl::StatusCode::kInvalidArgument);
  std::string right = "a";
  for (int i = 0; i < 60; ++i) right = "a - (" + right + ")";
  EXPECT_EQ(Value(right), 6);  // 61 terms of alternating sign, all at once on the stack.
  std::string wide = "a";
  for (int i = 0; i < 1000; ++i) wide += " + a";
  EXPECT_EQ(Value(wide), 6006);
}

}  // namespace
}  // namespace starling
