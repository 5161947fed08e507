// `id` and `raw` with their options, through the whole compiler, against answers
// worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sample_io/feature_test_util.h"

namespace starling {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// ---- id ----

TEST(IdValuesTest, SeparatorSplitsStringsAndSkipsNothings) {
  FeatureSet set = OneId("steps { columns: 'c' values { separator: '|' } }");
  Result r = Compile(set, {Strings("c", {"a|b|a", "", "|z|", "q"}, {1, 1, 1, 0})});
  ASSERT_TRUE(r.status.ok()) << r.status;
  EXPECT_THAT(IdsAt(r, 0), ElementsAre(Id("a"), Id("b"), Id("a")));
  EXPECT_THAT(IdsAt(r, 1), IsEmpty());
  EXPECT_THAT(IdsAt(r, 2), ElementsAre(Id("z")));
  EXPECT_THAT(IdsAt(r, 3), IsEmpty());
  EXPECT_THAT(Weights(r), IsEmpty());
}

TEST(IdValuesTest, WeightsStandInStringsInMapsOrBesideAndMeanDividesByCount) {
  const std::string weighted = "steps { columns: 'c' values { weighted: true separator: ',' } }";
  Result text = Compile(OneId(weighted), {Strings("c", {"a:0.5,b:2", "x:y:3"})});
  ASSERT_TRUE(text.status.ok()) << text.status;
  EXPECT_THAT(IdsAt(text, 0), ElementsAre(Id("a"), Id("b")));
  EXPECT_THAT(IdsAt(text, 1), ElementsAre(Id("x:y")));
  EXPECT_THAT(Weights(text), ElementsAre(0.5, 2, 3));

  Result map = Compile(OneId("steps { columns: 'c' values { weighted: true } } pooling: MEAN"),
                       {Map(Lists<int64_t>("c", {{7, 8}, {}, {9}}), Doubles("", {0.5, 2, 3}))});
  ASSERT_TRUE(map.status.ok()) << map.status;
  EXPECT_THAT(IdsAt(map, 0), ElementsAre(Id(7), Id(8)));
  EXPECT_THAT(Weights(map), ElementsAre(0.25, 1, 3));

  Result beside = Compile(
      OneId("steps { columns: 'c' columns: 'w' values { weights: true } }"),
      {Lists<int64_t>("c", {{1, 2}, {}, {3, 4}}), Lists<double>("w", {{.5, 1.5}, {}, {1}})});
  ASSERT_TRUE(beside.status.ok()) << beside.status;
  EXPECT_THAT(Weights(beside), ElementsAre(0.5, 1.5));
  EXPECT_EQ(WhyBad(beside, 2), "c: 2 ids, but 1 weights in column w");
}

TEST(IdValuesTest, WeightsReachTheOccurrencesOfTheirIds) {
  Result r = Compile(OneId("steps { columns: 'c' values { weighted: true separator: ',' } }"),
                     {Strings("c", {"a:0.5", "a:2"})});
  ASSERT_TRUE(r.status.ok());
  const TableIds& table = r.batch.tables[0];
  ASSERT_EQ(table.occurrences.size(), 2u);
  EXPECT_EQ(table.occurrences[0].weight, 0.5f);
  EXPECT_EQ(table.occurrences[1].weight, 2.0f);
}

TEST(IdValuesTest, BadWeightsAreBadRows) {
  Result r = Compile(OneId("steps { columns: 'c' values { weighted: true separator: ',' } }"),
                     {Strings("c", {"a", "a:x", "a:nan", "b:1", "a:1e99", ":"})});
  ASSERT_TRUE(r.status.ok());
  EXPECT_EQ(r.batch.rows, 1u);
  EXPECT_EQ(WhyBad(r, 0), "c: \"a\" is not id:weight");
  EXPECT_EQ(WhyBad(r, 1), "c: \"a:x\" is not id:weight");
  EXPECT_THAT(WhyBad(r, 2), HasSubstr("nan"));
  EXPECT_THAT(WhyBad(r, 4), HasSubstr("1e+99"));
  EXPECT_EQ(WhyBad(r, 5), "c: \":\" is not id:weight");
  EXPECT_THAT(IdsAt(r, 0), ElementsAre(Id("b")));
}

TEST(IdValuesTest, DefaultStandsForNullEmptyAndAColumnThatARequestLeftOut) {
  Result ints = Compile(OneId("steps { columns: 'c' values { default_int: -1 } }"),
                        {Ints("c", {5, 0}, {1, 0})});
  ASSERT_TRUE(ints.status.ok()) << ints.status;
  EXPECT_THAT(IdsAt(ints, 0), ElementsAre(Id(5)));
  EXPECT_THAT(IdsAt(ints, 1), ElementsAre(Id(-1)));
  FeatureSet text = OneId("steps { columns: 'c' values { default: 'none' separator: ' ' } }");
  Result strings = Compile(text, {Strings("c", {"a b", ""})});
  EXPECT_THAT(IdsAt(strings, 0), ElementsAre(Id("a"), Id("b")));
  EXPECT_THAT(IdsAt(strings, 1), ElementsAre(Id("none")));
  // Serving makes a left-out column up as null integers, whatever training saw.
  Result left_out = Compile(text, {Ints("c", {0}, {0})});
  ASSERT_TRUE(left_out.status.ok()) << left_out.status;
  EXPECT_THAT(IdsAt(left_out, 0), ElementsAre(Id("none")));
  EXPECT_THAT(std::string(Compile(text, {Ints("c", {1})}).status.message()),
              HasSubstr("column c: ids with a separator must be strings"));
  EXPECT_THAT(
      std::string(Compile(OneId("steps { columns: 'c' values { default: 'x' } }"), {Ints("c", {1})})
                      .status.message()),
      HasSubstr("default_int"));
}

TEST(IdValuesTest, MaxLengthKeepsTheFirstIdsAndTheirWeights) {
  Result r =
      Compile(OneId("steps { columns: 'c' columns: 'w' values { weights: true max_length: 2 } }"),
              {Lists<int64_t>("c", {{1, 2, 3}, {4}}), Lists<double>("w", {{1, 2, 3}, {4}})});
  ASSERT_TRUE(r.status.ok()) << r.status;
  EXPECT_THAT(IdsAt(r, 0), ElementsAre(Id(1), Id(2)));
  EXPECT_THAT(IdsAt(r, 1), ElementsAre(Id(4)));
  EXPECT_THAT(Weights(r), ElementsAre(1, 2, 4));
}

// Worked out from XXH64's definition, outside this code.
TEST(IdValuesTest, SaltChangesTheSeedAndItsAbsenceNothing) {
  FeatureSet salted = Features("tables: 1 ids { name: 'a' table: 0 salt: 'v2' }");
  FeatureSet plain = Features("tables: 1 ids { name: 'a' table: 0 }");
  EXPECT_THAT(Compile(plain, {Ints("a", {5})}).batch.tables[0].ids,
              ElementsAre(13925083397686935506u));
  EXPECT_THAT(Compile(salted, {Ints("a", {5})}).batch.tables[0].ids,
              ElementsAre(11434415078052479583u));
}

// Rows may be chosen in any order, bad ones among them: a derived column has
// entries of the batch, others those of the split.
TEST(DeriveTest, ChosenRowsKeepTheirOwnValues) {
  FeatureSet set = Features(R"(
      tables: 1
      ids { name: 'f' table: 0 steps { columns: 'c' values { separator: '|' } } }
      ids { name: 'p' table: 0 vocabulary: 'f' }
      raws { name: 'x' }
      raws { name: 'e' steps { columns: 'x' expr { text: 'x * 10' } } })");
  Result r = Compile(
      set,
      {Strings("c", {"a", "b|c", "d", "e"}), Ints("p", {1, 2, 3, 4}), Doubles("x", {1, 2, NAN, 4})},
      {3, 2, 1});
  ASSERT_TRUE(r.status.ok()) << r.status;
  EXPECT_EQ(r.batch.rows, 2u);
  EXPECT_THAT(IdsAt(r, 0), ElementsAre(Id("e")));
  EXPECT_THAT(IdsAt(r, 1), ElementsAre(Id("b"), Id("c")));
  EXPECT_THAT(r.batch.dense, ElementsAre(4, 40, 2, 20));
  const Slot& plain = r.batch.tables[0].slots[1];
  EXPECT_EQ(r.batch.tables[0].ids[plain.index[0]], Id(4));
  EXPECT_EQ(r.batch.tables[0].ids[plain.index[1]], Id(2));
  ASSERT_EQ(r.bad.size(), 1u);
  EXPECT_EQ(r.bad[0].row, 2);
  EXPECT_THAT(ColumnsOf(set, false), ElementsAre("c", "p", "x"));
}

// ---- raw ----

TEST(RawTest, ClipComesFirstThenTheNorm) {
  auto dense = [](const std::string& fields) {
    Result r = Compile(OneRaw(fields), {Doubles("f", {-5, 0, 3, 20, 0}, {1, 1, 1, 1, 0})});
    EXPECT_TRUE(r.status.ok()) << r.status;
    return r.batch.dense;
  };
  EXPECT_THAT(dense("clip { min: 0 max: 10 } missing: 99"), ElementsAre(0, 0, 3, 10, 10));
  EXPECT_THAT(dense("minmax { min: -5 max: 15 }"), ElementsAre(0, .25, .4f, 1.25, .25));
  EXPECT_THAT(dense("zscore { mean: 4 stddev: 2 } missing: 4"), ElementsAre(-4.5, -2, -.5, 8, 0));
  EXPECT_THAT(dense("clip { min: 1 max: 3 } norm: LOG1P"),
              ElementsAre(std::log1p(1.0), std::log1p(1.0), std::log1p(3.0), std::log1p(3.0),
                          std::log1p(1.0)));
}

TEST(RawTest, ClipDoesNotHideNan) {
  Result r = Compile(OneRaw("clip { min: 0 max: 10 }"),
                     {Doubles("f", {NAN, std::numeric_limits<double>::infinity()})});
  ASSERT_TRUE(r.status.ok());
  EXPECT_THAT(WhyBad(r, 0), HasSubstr("nan"));
  EXPECT_THAT(r.batch.dense, ElementsAre(10));
}

TEST(RawTest, VectorsFillColumnsAndAnotherLengthIsABadRow) {
  FeatureSet set =
      Features("raws { name: 'a' } raws { name: 'v' width: 2 missing: 9 } raws { name: 'b' }");
  Column v = Lists<double>("v", {{1, 2}, {}, {3}, {4, 5}, {6, 7, 8}, {1, NAN}});
  v.valid = {1, 0, 1, 1, 1, 1};
  Result r =
      Compile(set, {Ints("a", {10, 11, 12, 13, 14, 15}), v, Ints("b", {20, 21, 22, 23, 24, 25})});
  ASSERT_TRUE(r.status.ok()) << r.status;
  EXPECT_THAT(r.batch.dense, ElementsAre(10, 1, 2, 20, 11, 9, 9, 21, 13, 4, 5, 23));
  EXPECT_EQ(WhyBad(r, 2), "v: a list of 1 numbers, not of 2");
  EXPECT_EQ(WhyBad(r, 4), "v: a list of 3 numbers, not of 2");
  EXPECT_THAT(WhyBad(r, 5), HasSubstr("nan"));
  EXPECT_THAT(
      std::string(
          Compile(Features("raws { name: 'v' width: 2 }"), {Doubles("v", {1})}).status.message()),
      HasSubstr("a list of numbers"));
}

}  // namespace
}  // namespace starling
