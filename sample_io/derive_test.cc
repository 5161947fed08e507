// Derived kinds of features, through the whole compiler, against answers worked
// out by hand.
#include "sample_io/derive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sample_io/feature_test_util.h"

namespace starling {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// ---- bucketize and combo ----

TEST(BucketizeTest, ABoundaryBelongsToTheBucketBelowIt) {
  FeatureSet set = OneId("steps { columns: 'x' bucketize { boundaries: [0, 1.5, 10] } }");
  Result r =
      Compile(set, {Doubles("x", {-1, 0, 0.1, 1.5, 10, 11, 3, NAN}, {1, 1, 1, 1, 1, 1, 0, 1})});
  ASSERT_TRUE(r.status.ok()) << r.status;
  const int64_t buckets[] = {0, 0, 1, 1, 2, 3};
  for (int i = 0; i < 6; ++i) EXPECT_THAT(IdsAt(r, i), ElementsAre(Id(buckets[i]))) << i;
  EXPECT_THAT(IdsAt(r, 6), IsEmpty());
  EXPECT_EQ(WhyBad(r, 7), "x: the value is nan: it has no bucket");
  EXPECT_THAT(std::string(Compile(set, {Strings("x", {"1"})}).status.message()),
              HasSubstr("must be numbers"));
}

TEST(ComboTest, CrossesAllPartsInOrderAndANullHasNone) {
  FeatureSet set = OneId("steps { columns: 'a' columns: 'b' combo { max_length: 3 } }");
  Result r = Compile(set, {Lists<int64_t>("a", {{7}, {7, 8}, {}, {1, 2}}),
                           Lists<absl::string_view>("b", {{"x"}, {"x"}, {"x"}, {"x", "y"}})});
  ASSERT_TRUE(r.status.ok()) << r.status;
  auto cross = [](int64_t a, const char* b) {
    return Id(static_cast<int64_t>(HashBytes(b, HashInt64(a, 42))));
  };
  EXPECT_THAT(IdsAt(r, 0), ElementsAre(cross(7, "x")));
  EXPECT_THAT(IdsAt(r, 1), ElementsAre(cross(7, "x"), cross(8, "x")));
  EXPECT_THAT(IdsAt(r, 2), IsEmpty());
  EXPECT_THAT(IdsAt(r, 3), ElementsAre(cross(1, "x"), cross(1, "y"), cross(2, "x")));
  EXPECT_THAT(std::string(Compile(set, {Doubles("a", {1}), Ints("b", {1})}).status.message()),
              HasSubstr("a part of a combo must be integers or strings"));
}

// Worked out from XXH64's definition, outside this code. Tables on disk depend on it.
TEST(ComboTest, IdsAreFrozen) {
  FeatureSet set = Features(
      "tables: 1 ids { name: 'c' table: 0 steps { columns: 'a' columns: 'b' combo { max_length: 9 "
      "} } }");
  Result r = Compile(set, {Ints("a", {7}), Strings("b", {"x"})});
  ASSERT_TRUE(r.status.ok()) << r.status;
  EXPECT_THAT(r.batch.tables[0].ids, ElementsAre(10784969994764977738u));
}

// ---- lookup and match ----

TEST(LookupTest, TakesTheKeysValueFromMapsAndTextAlike) {
  FeatureSet set = OneRaw("missing: -1 steps { columns: 'm' columns: 'k' lookup { } }");
  const std::vector<float> due = {0.5, -1, 7, -1, -1};
  Column keys = Strings("k", {"a", "z", "b", "a", "a"}, {1, 1, 1, 1, 0});
  Result map =
      Compile(set, {Map(Lists<absl::string_view>("m", {{"a", "b"}, {"a"}, {"b"}, {}, {"a"}}),
                        Doubles("", {0.5, 2, 3, 7, 1})),
                    keys});
  Result text = Compile(set, {Strings("m", {"a:0.5,b:2", "a:3", "b:7", "", "a:1"}), keys});
  ASSERT_TRUE(map.status.ok()) << map.status;
  ASSERT_TRUE(text.status.ok()) << text.status;
  EXPECT_EQ(map.batch.dense, due);
  EXPECT_EQ(text.batch.dense, due);
}

TEST(LookupTest, IntegersAndTheirTextAreOneKey) {
  FeatureSet set = OneRaw("steps { columns: 'm' columns: 'k' lookup { } }");
  Result r = Compile(set, {Strings("m", {"7:1.5", "07:1"}), Ints("k", {7, 7})});
  EXPECT_THAT(r.batch.dense, ElementsAre(1.5, 0));
  r = Compile(set,
              {Map(Lists<int64_t>("m", {{7}, {7}}), Ints("", {3, 4})), Strings("k", {"7", "07"})});
  EXPECT_THAT(r.batch.dense, ElementsAre(3, 0));
}

TEST(LookupTest, SeveralKeysAreCombined) {
  auto combined = [](const std::string& how) {
    Result r = Compile(OneRaw("steps { columns: 'm' columns: 'k' lookup { combine: " + how + "} }"),
                       {Strings("m", {"1:2,2:4,3:9"}), Lists<int64_t>("k", {{2, 5, 3}})});
    EXPECT_TRUE(r.status.ok()) << r.status;
    return r.batch.dense[0];
  };
  EXPECT_EQ(combined("SUM"), 13);
  EXPECT_EQ(combined("MEAN"), 6.5);
  EXPECT_EQ(combined("MIN"), 4);
  EXPECT_EQ(combined("MAX"), 9);
}

TEST(LookupTest, ValuesAsIdsAreTextWhateverTheMap) {
  FeatureSet set = OneId("steps { columns: 'm' columns: 'k' lookup { as_id: true } }");
  Column keys = Lists<int64_t>("k", {{1, 2}, {3}});
  for (Column map : {Strings("m", {"1:10,2:20", ""}),
                     Map(Lists<int64_t>("m", {{1, 2}, {}}), Ints("", {10, 20}))}) {
    Result r = Compile(set, {map, keys});
    ASSERT_TRUE(r.status.ok()) << r.status;
    EXPECT_THAT(IdsAt(r, 0), ElementsAre(Id("10"), Id("20")));
    EXPECT_THAT(IdsAt(r, 1), IsEmpty());
  }
}

TEST(LookupTest, WhatIsNoMapOrNoNumberIsABadRow) {
  FeatureSet set = OneRaw("steps { columns: 'm' columns: 'k' lookup { } }");
  Result r = Compile(set, {Strings("m", {"1:2,3", "1:x", "2:x,1:5"}), Ints("k", {1, 1, 1})});
  ASSERT_TRUE(r.status.ok());
  EXPECT_EQ(WhyBad(r, 0), "m: \"1:2,3\" is not key:value,key:value");
  EXPECT_EQ(WhyBad(r, 1), "m: the value \"x\" is not a number");
  EXPECT_THAT(r.batch.dense, ElementsAre(5));
  EXPECT_THAT(std::string(Compile(set, {Ints("m", {1}), Ints("k", {1})}).status.message()),
              HasSubstr("column m: a map must be a map, or key:value strings"));
}

TEST(MatchTest, TakesTheValueOfTwoKeysFromMapsAndTextAlike) {
  FeatureSet set = OneRaw("missing: -1 steps { columns: 'm' columns: 'p' columns: 's' match { } }");
  Column primary = Strings("p", {"A", "B", "A", "C"}),
         secondary = Strings("s", {"x", "x", "z", "x"});
  const absl::string_view all = "A^x:0.2,y:0.3|B^x:4";
  Result text = Compile(set, {Strings("m", {all, all, all, all}), primary, secondary});
  ASSERT_TRUE(text.status.ok()) << text.status;
  EXPECT_THAT(text.batch.dense, ElementsAre(.2f, 4, -1, -1));
  Column inner = Map(Lists<absl::string_view>("", {{"x", "y"}, {"x"}}), Doubles("", {.2, .3, 4}));
  Column outer = Lists<absl::string_view>("m", {{"A", "B"}});
  Result map = Compile(set, {Map(outer, inner), Strings("p", {"B"}), Strings("s", {"x"})});
  ASSERT_TRUE(map.status.ok()) << map.status;
  EXPECT_THAT(map.batch.dense, ElementsAre(4));
}

TEST(MatchTest, ValuesMayBeIdsAndBadTextIsABadRow) {
  FeatureSet set = OneId("steps { columns: 'm' columns: 'p' columns: 's' match { as_id: true } }");
  Result r =
      Compile(set, {Strings("m", {"1^2:v,3:w", "1:2", "1^2"}), Lists<int64_t>("p", {{1}, {1}, {1}}),
                    Lists<int64_t>("s", {{3, 2}, {2}, {2}})});
  ASSERT_TRUE(r.status.ok()) << r.status;
  EXPECT_THAT(IdsAt(r, 0), ElementsAre(Id("w"), Id("v")));
  EXPECT_EQ(WhyBad(r, 1), "m: \"1:2\" is not pk^sk:v,sk:v|pk^sk:v");
  EXPECT_EQ(WhyBad(r, 2), "m: \"1^2\" is not pk^sk:v,sk:v|pk^sk:v");
}

TEST(MatchTest, SeveralKeysGiveAllPairs) {
  FeatureSet set = OneId("steps { columns: 'm' columns: 'p' columns: 's' match { as_id: true } }");
  Result r = Compile(set, {Strings("m", {"1^5:a,6:b|2^5:c"}), Lists<int64_t>("p", {{2, 9, 1}}),
                           Lists<int64_t>("s", {{6, 5}})});
  ASSERT_TRUE(r.status.ok()) << r.status;
  EXPECT_THAT(IdsAt(r, 0), ElementsAre(Id("c"), Id("b"), Id("a")));
}

// The value of a map, taken by its size: TorchEasyRec's first example of a lookup.
TEST(LookupTest, StepsFollowEachOther) {
  FeatureSet set = OneId(
      "steps { columns: 'm' columns: 'k' lookup { } } steps { bucketize { boundaries: [0, 1, 2] } "
      "} "
      "steps { values { default_int: -1 } }");
  Result r = Compile(set, {Strings("m", {"a:0.5", "a:5", "b:5"}), Strings("k", {"a", "a", "a"})});
  ASSERT_TRUE(r.status.ok()) << r.status;
  EXPECT_THAT(IdsAt(r, 0), ElementsAre(Id(1)));
  EXPECT_THAT(IdsAt(r, 1), ElementsAre(Id(3)));
  EXPECT_THAT(IdsAt(r, 2), ElementsAre(Id(-1)));
}

// ---- expr ----

TEST(ExprTest, NullInIsNullOutAndWhatIsNotFiniteIsABadRow) {
  FeatureSet set =
      OneRaw("missing: 7 steps { columns: 'a' columns: 'b' expr { text: 'a / b + 1' } }");
  Result r = Compile(set, {Ints("a", {2, 6, 1, 5}, {0, 1, 0, 1}), Doubles("b", {4, 4, 2, 0})});
  ASSERT_TRUE(r.status.ok()) << r.status;
  EXPECT_THAT(r.batch.dense, ElementsAre(7, 2.5, 7));
  EXPECT_EQ(WhyBad(r, 3), "f: the value is inf, not a finite 32-bit number");
  EXPECT_THAT(std::string(Compile(set, {Strings("a", {"1"}), Ints("b", {1})}).status.message()),
              HasSubstr("column a: a column of an expression must be numbers"));
}

// ---- sequence ----

TEST(SequenceTest, CutsByTimeThenByLength) {
  const std::string columns = "steps { columns: 'i' columns: 't' columns: 'now' ";
  std::vector<Column> data = {Lists<int64_t>("i", {{1, 2, 3, 4, 5}, {}, {6}}),
                              Lists<int64_t>("t", {{89, 90, 95, 100, 101}, {}, {100}}),
                              Ints("now", {100, 0, 0}, {1, 0, 0})};
  Result tail =
      Compile(OneId(columns + "sequence { timed: true within: 10 max_length: 2 } }"), data);
  ASSERT_TRUE(tail.status.ok()) << tail.status;
  EXPECT_THAT(IdsAt(tail, 0), ElementsAre(Id(3), Id(4)));
  EXPECT_THAT(IdsAt(tail, 1), IsEmpty());  // No event, so no time is missed.
  EXPECT_EQ(WhyBad(tail, 2), "now: a sequence is cut by the event time, which is null");
  Result head = Compile(
      OneId(columns + "sequence { timed: true within: 10 max_length: 2 keep: HEAD } }"), data);
  EXPECT_THAT(IdsAt(head, 0), ElementsAre(Id(2), Id(3)));
  Result ever = Compile(OneId(columns + "sequence { timed: true } }"), data);
  EXPECT_THAT(IdsAt(ever, 0), ElementsAre(Id(1), Id(2), Id(3), Id(4)));
}

TEST(SequenceTest, ListsOfAnotherLengthAreABadRow) {
  FeatureSet set = OneId("steps { columns: 'i' columns: 'c' sequence { max_length: 9 } }");
  Result r =
      Compile(set, {Lists<int64_t>("i", {{1, 2}, {3}}), Lists<int64_t>("c", {{5, 6}, {7, 8}})});
  ASSERT_TRUE(r.status.ok()) << r.status;
  EXPECT_THAT(IdsAt(r, 0), ElementsAre(Id(1), Id(2)));
  EXPECT_EQ(WhyBad(r, 1), "i: a sequence of 1 events, but of 2 in column c");
  EXPECT_THAT(std::string(Compile(set, {Ints("i", {1}), Ints("c", {1})}).status.message()),
              HasSubstr("a part of a sequence must be a list"));
}

TEST(SequenceTest, NumbersArePooledToOne) {
  auto pooled = [](const std::string& how) {
    Result r =
        Compile(OneRaw("missing: -1 steps { columns: 'x' columns: 'i' sequence { max_length: 4 } } "
                       "steps { pool { pooling: " +
                       how + " } }"),
                {Lists<double>("x", {{9, 1, 2, 3, 6}, {}, {5}}),
                 Lists<int64_t>("i", {{1, 2, 3, 4, 5}, {}, {6}})});
    EXPECT_TRUE(r.status.ok()) << r.status;
    return r.batch.dense;
  };
  EXPECT_THAT(pooled("SUM"), ElementsAre(12, -1, 5));
  EXPECT_THAT(pooled("MEAN"), ElementsAre(3, -1, 5));
  EXPECT_THAT(pooled("SQRTN"), ElementsAre(6, -1, 5));
  EXPECT_THAT(std::string(Compile(OneRaw("steps { columns: 'x' sequence { } } steps { pool { } }"),
                                  {Lists<absl::string_view>("x", {{"a"}})})
                              .status.message()),
              HasSubstr("what is pooled must be numbers"));
}

// ---- bundles come from elsewhere ----

TEST(DeriveTest, StepsThatNoPlanMakesAreRefused) {
  for (const char* steps :
       {"steps { columns: 'a' }", "steps { columns: 'a' combo { max_length: 1 } }",
        "steps { columns: 'a' columns: 'b' combo { } }", "steps { values { } }",
        "steps { columns: 'a' values { weights: true } }",
        "steps { columns: 'a' values { max_length: 0 } }",
        "steps { columns: 'a' values { separator: '' } }",
        "steps { columns: 'a' bucketize { boundaries: [2, 1] } }",
        "steps { columns: 'a' lookup { } }", "steps { columns: 'a' columns: 'b' match { } }",
        "steps { columns: 'a' expr { text: 'a + b' } }",
        "steps { columns: 'a' expr { text: 'a +' } }",
        "steps { columns: 'a' columns: 'b' sequence { timed: true } }",
        "steps { columns: 'a' sequence { max_length: 0 } }", "steps { pool { } }"}) {
    EXPECT_EQ(FeatureCompiler::Create(OneId(steps)).status().code(),
              absl::StatusCode::kInvalidArgument)
        << steps;
  }
  EXPECT_FALSE(FeatureCompiler::Create(OneRaw("width: 0")).ok());
}

TEST(DeriveTest, AMissingColumnIsNamedWithItsFeature) {
  Result r = Compile(OneId("steps { columns: 'a' columns: 'b' combo { max_length: 1 } }"),
                     {Ints("a", {1})});
  EXPECT_EQ(r.status.message(), "column b (read by feature f) is not in the data");
}

}  // namespace
}  // namespace starling
