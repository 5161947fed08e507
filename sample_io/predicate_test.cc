#include "sample_io/predicate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "sample_io/source.h"

namespace starling {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Five rows; the last is null in all but `u`.
const std::vector<ColumnSchema> kSchema = {{"i", "int32"},
                                           {"u", "uint64"},
                                           {"d", "double"},
                                           {"s", "string"},
                                           {"t", "timestamp[us]"},
                                           {"odd name", "int64"},
                                           {"l", "list<item: int64>"},
                                           {"m", "int64", true}};

Column ColumnNamed(const std::string& name) {
  Column c;
  c.name = name;
  c.rows = 5;
  c.valid = {1, 1, 1, 1, 0};
  if (name == "s") {
    c.type = ColumnType::kString;
    c.strings = {"a", "US", "it's", "b", ""};
  } else if (name == "d") {
    c.type = ColumnType::kDouble;
    c.doubles = {0.5, std::nan(""), -1, 9007199254740993.0, 0};
  } else if (name == "u") {
    c.valid.clear();
    c.ints = {1, -1, 3, std::numeric_limits<int64_t>::min(), 5};  // 2^64 - 1, 2^63.
  } else if (name == "t") {
    c.ints = {1785542400, 1785542399, 1785628800, 0, 0};  // 2026-08-01, a second before, the 2nd.
  } else {
    c.ints = {1, 2, 3, 9007199254740993, 0};
  }
  return c;
}

absl::StatusOr<std::vector<int64_t>> Rows(const std::string& text) {
  auto predicate = Predicate::Parse(text);
  if (!predicate.ok()) return predicate.status();
  if (absl::Status status = predicate->Bind(kSchema); !status.ok()) return status;
  std::vector<Column> columns;
  for (const std::string& name : predicate->columns()) columns.push_back(ColumnNamed(name));
  return predicate->Matching(columns, 5);
}

TEST(PredicateTest, TakesTheRowsForWhichItIsTrue) {
  EXPECT_THAT(*Rows("i = 2"), ElementsAre(1));
  EXPECT_THAT(*Rows("i == 2 or i=3"), ElementsAre(1, 2));
  EXPECT_THAT(*Rows("i != 2"), ElementsAre(0, 2, 3));
  EXPECT_THAT(*Rows("i <> 2 and i < 3"), ElementsAre(0));
  EXPECT_THAT(*Rows("i>=2 AND i<=3"), ElementsAre(1, 2));
  EXPECT_THAT(*Rows("i in (1, 3, 77)"), ElementsAre(0, 2));
  EXPECT_THAT(*Rows("i not in (1, 3)"), ElementsAre(1, 3));
  EXPECT_THAT(*Rows("s = 'US'"), ElementsAre(1));
  EXPECT_THAT(*Rows("s = 'it''s'"), ElementsAre(2));
  EXPECT_THAT(*Rows("s > 'a' and s < 'c'"), ElementsAre(3));
  EXPECT_THAT(*Rows("`odd name` = 1"), ElementsAre(0));
  EXPECT_THAT(*Rows("i = 1 or i = 2 and s = 'a'"), ElementsAre(0));
  EXPECT_THAT(*Rows("(i = 1 or i = 2) and s = 'US'"), ElementsAre(1));
  EXPECT_THAT(*Rows("i = -1"), IsEmpty());
}

TEST(PredicateTest, NullsAndNanAreUnknown) {
  EXPECT_THAT(*Rows("i is null"), ElementsAre(4));
  EXPECT_THAT(*Rows("i is not null"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(*Rows("not (i = 2)"), ElementsAre(0, 2, 3));
  EXPECT_THAT(*Rows("i = 1 or u = 5"), ElementsAre(0, 4));  // True wins over unknown.
  EXPECT_THAT(*Rows("not (i = 1 and u = 77)"), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(*Rows("d is null"), ElementsAre(1, 4));
  EXPECT_THAT(*Rows("d = 0.5 or not d = 0.5"), ElementsAre(0, 2, 3));
}

TEST(PredicateTest, NumbersAreComparedExactly) {
  EXPECT_THAT(*Rows("i > 9007199254740992"), ElementsAre(3));  // Not a double.
  EXPECT_THAT(*Rows("i = 9007199254740993"), ElementsAre(3));
  EXPECT_THAT(*Rows("i > 2.5 and i < 1e3"), ElementsAre(2));
  EXPECT_THAT(*Rows("u > 9223372036854775808"), ElementsAre(1));
  EXPECT_THAT(*Rows("u >= 9223372036854775808"), ElementsAre(1, 3));
  EXPECT_THAT(*Rows("d < 0"), ElementsAre(2));
}

TEST(PredicateTest, TimesAreWrittenAsTextOrSeconds) {
  EXPECT_THAT(*Rows("t >= '2026-08-01' and t < '2026-08-02'"), ElementsAre(0));
  EXPECT_THAT(*Rows("t = '2026-07-31T23:59:59'"), ElementsAre(1));
  EXPECT_THAT(*Rows("t = 1785542400"), ElementsAre(0));
  EXPECT_THAT(Rows("t = 'yesterday'").status().message(), HasSubstr("'yesterday' is no time"));
}

TEST(PredicateTest, MistakesAreNamedWithTheirPlace) {
  auto error = [](const std::string& text) {
    auto rows = Rows(text);
    EXPECT_EQ(rows.status().code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(rows.status().message());
  };
  EXPECT_EQ(error(""), "character 1: a column must stand here, not ``");
  EXPECT_EQ(error("i ="), "character 4: a number or 'text' must stand here, not ``");
  EXPECT_EQ(error("i = US"), "character 5: a number or 'text' must stand here, not `US`");
  EXPECT_EQ(error("i = 1 extra"), "character 7: `extra` is left over");
  EXPECT_EQ(error("(i = 1"), "character 7: the `(` of character 1 is not closed");
  EXPECT_EQ(error("s = 'x"), "character 5: the quote is not closed");
  EXPECT_EQ(error("i is 3"), "character 6: `is` must be followed by `null` or `not null`");
  EXPECT_EQ(error("i not 3"), "character 7: `not` behind a column must be followed by `in`");
  EXPECT_EQ(error("i in 3"), "character 6: `in` must be followed by `(`");
  EXPECT_EQ(error("i"), "character 2: a comparison is missing: =, !=, <, <=, >, >=, in or is");
  EXPECT_THAT(error(std::string(200, '(')), HasSubstr("too deep"));
  EXPECT_THAT(error("nope = 1"), HasSubstr("the data has no column nope"));
  EXPECT_THAT(error("s = 1"), HasSubstr("column s holds text, but is compared with a number"));
  EXPECT_THAT(error("i = 'a'"), HasSubstr("column i holds numbers, but is compared with the text"));
  EXPECT_THAT(error("l = 1"), HasSubstr("only columns with one value a row"));
  EXPECT_THAT(error("m = 1"), HasSubstr("several values a row"));
}

// What a part tells of its values rules it out only if no row of it matches:
// random predicates over random rows.
TEST(PredicateTest, BoundsNeverRuleOutAMatch) {
  uint64_t draw = 0;
  auto below = [&](uint64_t n) { return RandomBelow(11, draw++, n); };
  auto leaf = [&] {
    static constexpr const char* kOps[] = {"=", "!=", "<", "<=", ">", ">="};
    const char* column = below(2) == 0 ? "i" : "d";
    if (below(6) == 0) return absl::StrCat(column, below(2) == 0 ? " is null" : " is not null");
    if (below(6) == 0) {
      return absl::StrCat(column, below(2) == 0 ? " in (" : " not in (", below(8), ", ", below(8),
                          ")");
    }
    return absl::StrCat(column, " ", kOps[below(6)], " ", below(8));
  };
  int ruled_out = 0, matched = 0;
  for (int round = 0; round < 5000; ++round) {
    const std::string text =
        absl::StrCat(below(2) == 0 ? "not " : "", "(", leaf(), below(2) == 0 ? " and " : " or ",
                     below(3) == 0 ? "not " : "", leaf(), ")");
    Predicate predicate = *Predicate::Parse(text);
    ASSERT_TRUE(predicate.Bind(kSchema).ok());
    std::vector<Column> columns;
    std::vector<ValueBounds> bounds;
    for (const std::string& name : predicate.columns()) {
      Column& c = columns.emplace_back();
      ValueBounds& b = bounds.emplace_back();
      c.type = name == "i" ? ColumnType::kInt64 : ColumnType::kDouble;
      c.rows = 3;
      const uint64_t base = below(8);
      b.nulls_possible = b.values_possible = false;
      b.nans_possible = name == "d";
      for (int row = 0; row < 3; ++row) {
        const auto value = static_cast<double>(base + below(2));
        const bool null = below(5) == 0, nan = name == "d" && below(5) == 0;
        c.valid.push_back(!null);
        name == "i" ? c.ints.push_back(static_cast<int64_t>(value))
                    : c.doubles.push_back(nan ? std::nan("") : value);
        b.nulls_possible |= null;
        b.values_possible |= !null;
        if (null || nan) continue;
        b.min = b.known ? std::min<long double>(b.min, value) : value;
        b.max = b.known ? std::max<long double>(b.max, value) : value;
        b.known = true;
      }
    }
    const bool matches = !predicate.Matching(columns, 3).empty();
    const bool may = predicate.MayMatch(bounds);
    EXPECT_TRUE(may || !matches) << text;
    ruled_out += !may;
    matched += matches;
  }
  EXPECT_GT(ruled_out, 500);
  EXPECT_GT(matched, 1000);
}

}  // namespace
}  // namespace starling
