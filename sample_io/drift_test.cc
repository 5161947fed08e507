#include "sample_io/drift.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace starling {
namespace {

using testing::ElementsAre;

Column Ints(std::vector<int64_t> values) {
  Column column;
  column.name = "c";
  column.rows = static_cast<int64_t>(values.size());
  column.ints = std::move(values);
  return column;
}

Column Doubles(std::vector<double> values) {
  Column column;
  column.name = "c";
  column.type = ColumnType::kDouble;
  column.rows = static_cast<int64_t>(values.size());
  column.doubles = std::move(values);
  return column;
}

DataStats StatsOf(const Column& column, const std::string& type = "int64") {
  DataStats stats;
  stats.rows = column.rows;
  stats.columns.push_back(ColumnStats::Of({column.name, type}));
  stats.columns[0].Add(column, 0);
  return stats;
}

ColumnDrift DriftOf(const Column& a, const Column& b) {
  return CompareStats(StatsOf(a), StatsOf(b)).columns.at(0);
}

TEST(ColumnStatsTest, UnsignedIntegersKeepTheirOrder) {
  const ColumnStats c = StatsOf(Ints({-1, 1, 5}), "uint64").columns[0];  // -1: 2^64 - 1
  EXPECT_EQ(static_cast<uint64_t>(c.min_int), 1);
  EXPECT_EQ(static_cast<uint64_t>(c.max_int), ~uint64_t{0});
  EXPECT_NEAR(c.mean(), 0x1p64 / 3, 1e10);
  EXPECT_EQ(c.TextOf({~uint64_t{0}, "", 1}), "18446744073709551615");
}

TEST(ColumnStatsTest, NotFiniteNumbersAreCountedAndEnterNothingElse) {
  const ColumnStats c =
      StatsOf(Doubles({1, NAN, 3, HUGE_VAL, -HUGE_VAL, -0.0, 0.0}), "double").columns[0];
  EXPECT_EQ(c.nans, 1);
  EXPECT_EQ(c.infinities, 2);
  EXPECT_EQ(c.values, 4);
  EXPECT_EQ(c.mean(), 1);
  EXPECT_EQ(c.max_double, 3);
  EXPECT_EQ(c.distinct_values(), 3);  // Both zeros are one value.
}

TEST(ColumnStatsTest, PartWithoutValuesChangesNeitherTypeNorLimits) {
  ColumnStats whole = StatsOf(Doubles({2, 4}), "double").columns[0];
  Column nulls = Ints({0, 0});
  nulls.valid = {0, 0};
  const ColumnStats empty = StatsOf(nulls, "double").columns[0];
  ColumnStats before = empty;
  before.Merge(whole);
  whole.Merge(empty);
  for (const ColumnStats& c : {before, whole}) {
    EXPECT_EQ(c.kind, ColumnType::kDouble);
    EXPECT_EQ(c.min_double, 2);
    EXPECT_EQ(c.nulls, 2);
    EXPECT_EQ(c.null_share(), 0.5);
  }
}

TEST(DriftTest, StabilityIndexByHand) {
  EXPECT_EQ(PopulationStability({3, 7}, {30, 70}), 0);
  EXPECT_NEAR(PopulationStability({50, 50}, {30, 20}), 0.1 * std::log(1.2) - 0.1 * std::log(0.8),
              1e-15);
  // An empty bin counts as 0.0001.
  EXPECT_NEAR(PopulationStability({1, 0}, {1, 1}), -0.5 * std::log(0.5) + 0.4999 * std::log(5000.0),
              1e-12);
}

TEST(DriftTest, SameDistributionIsSteadyAndAShiftIsNot) {
  std::vector<double> a, b, shifted;
  for (int i = 0; i < 50000; ++i) {
    a.push_back(RandomNormal(1, i));
    b.push_back(RandomNormal(2, i));
    shifted.push_back(RandomNormal(3, i) + 1);
  }
  EXPECT_LT(DriftOf(Doubles(a), Doubles(b)).psi, 0.01);
  // The index of normals one deviation apart is 1; binning takes some off.
  EXPECT_NEAR(DriftOf(Doubles(a), Doubles(shifted)).psi, 0.95, 0.1);
}

TEST(DriftTest, ConstantColumnMovesBothWays) {
  for (double moved : {6.0, 8.0}) {
    const ColumnDrift drift = DriftOf(Doubles(std::vector<double>(100, 7)), Doubles({7, moved}));
    EXPECT_GT(drift.psi, kPsiDifferent) << moved;
    EXPECT_EQ(drift.bins, "quantiles");
  }
}

// Values spread over a range stay in their quantiles when two ids trade places.
TEST(DriftTest, IntegersAreSeenAsIdsToo) {
  std::vector<int64_t> a(500, 4), b(500, 6);
  for (int i = 0; i < 500; ++i) {
    for (auto* v : {&a, &b}) v->push_back(i % 10 < 5 ? 1 : 9);
  }
  const ColumnDrift drift = DriftOf(Ints(a), Ints(b));
  EXPECT_EQ(drift.bins, "ids");
  EXPECT_GT(drift.psi, kPsiDifferent);
  EXPECT_EQ(drift.unseen_share_min, 0.5);
  EXPECT_EQ(drift.unseen_share_max, 0.5);
}

TEST(DriftTest, UnseenShareIsARangeIfTheOtherHasTooManyValuesAndNoneIfTheReferenceHas) {
  std::vector<int64_t> few(100, 1), many(10000, 1);
  for (int64_t i = 0; i < 10000; ++i) many.push_back(1000 + i);
  const ColumnDrift to_many = DriftOf(Ints(few), Ints(many));
  EXPECT_LE(*to_many.unseen_share_min, 0.5);
  EXPECT_GE(*to_many.unseen_share_max, 0.5);
  EXPECT_LT(*to_many.unseen_share_max, 0.55);
  EXPECT_NEAR(*to_many.new_distinct, 10000, 400);
  const ColumnDrift to_few = DriftOf(Ints(many), Ints(few));
  EXPECT_EQ(to_few.unseen_share_min, std::nullopt);
  EXPECT_EQ(to_few.new_distinct, std::nullopt);
}

TEST(DriftTest, ColumnsOfOneSideOrOfOtherTypesAreNamed) {
  DataStats a = StatsOf(Ints({1})), b = StatsOf(Doubles({1}), "double");
  a.columns.push_back(ColumnStats::Of({"old", "int64"}));
  b.columns.push_back(ColumnStats::Of({"new", "int64"}));
  const DataDrift drift = CompareStats(a, b);
  EXPECT_TRUE(drift.columns.empty());
  EXPECT_THAT(drift.not_compared,
              ElementsAre("c: int64 in the reference, double in the other",
                          "new: only in the other", "old: only in the reference"));
}

}  // namespace
}  // namespace starling
