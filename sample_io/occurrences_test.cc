#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "sample_io/feature_test_util.h"

namespace starling {
namespace {

TEST(OccurrencesTest, SlotsEntriesAndWeightsComeBackFromCodes) {
  for (size_t slots : {1, 2, 3, 26, 64, 65, 1000}) {
    Occurrences occurrences;
    occurrences.Start(slots);
    const auto entry = static_cast<uint32_t>(Occurrences::EntriesMax(slots) - 1);
    const auto slot = static_cast<uint32_t>(slots - 1);
    const std::vector<Occurrence> added = {
        {0, 0, 1}, {slot, entry, 1}, {0, entry, 0.5f}, {slot, 0, 1}};
    for (const Occurrence& o : added) {
      EXPECT_EQ(occurrences.weights.empty(), occurrences.size() < 3);
      occurrences.Add(o);
    }
    ASSERT_EQ(occurrences.size(), added.size());
    for (size_t i = 0; i < added.size(); ++i) {
      EXPECT_EQ(occurrences[i].slot, added[i].slot) << slots;
      EXPECT_EQ(occurrences[i].entry, added[i].entry) << slots;
      EXPECT_EQ(occurrences[i].weight, added[i].weight) << slots;
    }
  }
}

// A code has 32 bits for slot and entry.
TEST(OccurrencesTest, MoreIdsThanCodesTellApartAreRefusedNamingTheColumn) {
  constexpr int kSlots = 1024;
  const size_t most = Occurrences::EntriesMax(kSlots);
  FeatureSet set;
  set.set_tables(1);
  ColumnBatch columns;
  columns.rows = 1;
  columns.columns.push_back(Lists<int64_t>("long", {std::vector<int64_t>(most + 1, int64_t{7})}));
  for (int s = 1; s < kSlots; ++s) {
    columns.columns.push_back(Ints(absl::StrCat("c", s), {int64_t{s}}));
  }
  for (const Column& column : columns.columns) set.add_ids()->set_name(column.name);
  auto compiler = FeatureCompiler::Create(set);
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  Batch batch;
  std::vector<BadRow> bad;
  const absl::Status status = (*compiler)->Compile(columns, {}, false, &batch, &bad);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("column long holds 4194305 ids in one batch, and its table has "
                                 "1024 columns; use smaller batches"));
}

}  // namespace
}  // namespace starling
