#include "sample_io/planted_sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "sample_io/generator.h"
#include "sample_io/parquet_test_util.h"
#include "sample_io/source.h"

namespace starling {
namespace {

TEST(PlantedSequenceTest, TheLogitFollowsFromWhetherAndWhenTheCategoryWasSeen) {
  const PlantedSequence planted(3, 12);
  std::array<std::vector<double>, 3> logits;  // Never, long ago, recently.
  for (int64_t r = 0; r < 3000; ++r) {
    PlantedSequence::Row row;
    planted.Fill(r, r, &row);
    ASSERT_LE(row.seen_items.size(), 12u);
    int when = 0;
    for (size_t i = 0; i < row.seen_items.size(); ++i) {
      const bool alike =
          PlantedSequence::CategoryOf(row.seen_items[i]) == PlantedSequence::CategoryOf(row.item);
      const bool recent = i + PlantedSequence::kRecent >= row.seen_items.size();
      if (alike) when = std::max(when, recent ? 2 : 1);
    }
    logits[when].push_back(row.logit);
  }
  for (const auto& of : logits) {
    EXPECT_GT(of.size(), 300u);
    EXPECT_THAT(of, testing::Each(of[0]));
  }
  EXPECT_LT(logits[0][0], logits[1][0]);
  EXPECT_LT(logits[1][0], logits[2][0]);
}

TEST(PlantedSequenceTest, EventsAreTheUsersAndTheTargetIsTheRows) {
  const PlantedSequence planted(3, 12);
  PlantedSequence::Row a, b;
  planted.Fill(20, 20, &a);
  planted.Fill(21, 20, &b);
  EXPECT_EQ(a.seen_items, b.seen_items);
  EXPECT_NE(a.item, b.item);
}

TEST(PlantedSequenceTest, GeneratedFilesHoldTheSequenceIfAsked) {
  GeneratorOptions options;
  options.out = FreshDir() + "/data";
  options.rows = 2000;
  options.eval_rows = 0;
  options.days = 1;
  options.impressions = 2;
  auto plain = Generate(options);
  ASSERT_TRUE(plain.ok()) << plain.status();
  options.overwrite = true;
  options.sequence = 9;
  auto report = Generate(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->train.auc, plain->train.auc + 0.02);

  for (const bool nested : {false, true}) {
    auto source = SampleSource::Open({options.out + (nested ? "/train_nested" : "/train")});
    ASSERT_TRUE(source.ok()) << source.status();
    const std::string of_user = nested ? "user." : "", of_row = nested ? "impressions." : "";
    auto columns = (*source)->Read(0, {of_user + "seen_item", of_user + "seen_category",
                                       of_row + "item", of_row + "category"});
    ASSERT_TRUE(columns.ok()) << columns.status();
    const Column& seen = columns->columns[0];
    ASSERT_EQ(seen.rows, nested ? 1000 : 2000);
    EXPECT_EQ(columns->columns[1].list_offsets, seen.list_offsets);
    const PlantedSequence planted(options.seed, options.sequence);
    PlantedSequence::Row row;
    planted.Fill(7, 6, &row);  // Row 7 is the second of request 3.
    const ValueRange values = ValuesOf(seen, nested ? 3 : 7);
    EXPECT_EQ(
        std::vector<int64_t>(seen.ints.begin() + values.begin, seen.ints.begin() + values.end),
        row.seen_items);
    EXPECT_EQ(columns->columns[2].ints[7], row.item);
    EXPECT_EQ(columns->columns[3].ints[7], row.item % PlantedSequence::kCategories);
  }
}

}  // namespace
}  // namespace starling
