// Sequences that are not pooled: each id is a position, in the order of events;
// and a user's sequence stands once a request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sample_io/feature_inputs.h"
#include "sample_io/feature_test_util.h"
#include "sample_io/requests.h"

namespace starling {
namespace {

using testing::ElementsAre;

constexpr char kSequence[] =
    "vocabulary: 'f' sequence: 0 steps { columns: 'seen' sequence { max_length: 2 } }";

// A sequence `f` and its target `item` in one table and vocabulary.
FeatureSet WithTarget() {
  FeatureSet set = OneId(kSequence);
  IdFeature* item = set.add_ids();
  item->set_name("item");
  item->set_vocabulary("f");
  item->set_table(0);
  return set;
}

TEST(PositionsTest, EachIdOfASequenceIsAPosition) {
  Result r = Compile(WithTarget(),
                     {Lists<int64_t>("seen", {{1, 2, 3}, {}, {3}}), Ints("item", {3, 1, 3})});
  ASSERT_TRUE(r.status.ok()) << r.status;
  const TableIds& table = r.batch.tables[0];
  const Slot& seen = table.slots[0];
  EXPECT_EQ(seen.axis, Axis::kPosition);
  EXPECT_EQ(seen.entries(), Axis::kRow);
  EXPECT_THAT(seen.offsets, ElementsAre(0, 2, 2, 3));
  EXPECT_TRUE(seen.weights.empty());
  EXPECT_THAT(IdsAt(r, 0), ElementsAre(Id(2), Id(3)));
  EXPECT_EQ(table.slots[1].axis, Axis::kRow);
  // Item 3 is one row of the table, at positions 1 and 2 and in rows 0 and 2.
  ASSERT_EQ(table.ids.size(), 3u);
  for (size_t u = 0; u < 3; ++u) {
    if (table.ids[u] != Id(3)) continue;
    std::vector<std::pair<uint32_t, uint32_t>> at;
    for (uint32_t o = table.occurrence_offsets[u]; o < table.occurrence_offsets[u + 1]; ++o) {
      at.emplace_back(table.occurrences[o].slot, table.occurrences[o].entry);
    }
    EXPECT_THAT(at,
                ElementsAre(std::pair(0, 1), std::pair(0, 2), std::pair(1, 0), std::pair(1, 2)));
    EXPECT_EQ(table.counts[u], 4u);
  }
}

// Requests {0, 1}, {2} and {3, 4}; the middle one and row 3 are bad.
ColumnBatch Requests() {
  ColumnBatch batch;
  batch.rows = 5;
  batch.columns = {Ints("r", {7, 7, 8, 9, 9}),
                   Lists<int64_t>("seen", {{1, 2}, {1, 2}, {4}, {5, 6}, {5, 6}}),
                   Lists<int64_t>("beside", {{1, 2}, {1, 2}, {}, {5, 6}, {5, 6}}),
                   Ints("item", {10, 11, 12, 13, 14}), Ints("y", {0, 1, 0, 0, 1}, {1, 1, 1, 0, 1})};
  return batch;
}

TEST(PositionsTest, AUsersSequenceStandsOnceARequest) {
  FeatureSet set = WithTarget();
  set.mutable_ids(0)->mutable_steps(0)->add_columns("beside");
  set.set_label("y");
  set.set_request("r");
  set.add_user("seen");
  set.add_user("beside");
  ColumnBatch columns = Requests();
  ASSERT_TRUE(FormRequests(set, &columns).ok());
  auto compiler = FeatureCompiler::Create(set);
  Result r;
  r.status = (*compiler)->Compile(columns, {}, true, &r.batch, &r.bad);
  ASSERT_TRUE(r.status.ok()) << r.status;
  EXPECT_EQ(WhyBad(r, 2), "seen: a sequence of 1 events, but of 0 in column beside");
  EXPECT_EQ(WhyBad(r, 3), "y: the label is null");
  EXPECT_EQ(r.bad.size(), 2u);

  const Slot& seen = r.batch.tables[0].slots[0];
  EXPECT_EQ(seen.axis, Axis::kPosition);
  EXPECT_EQ(seen.entries(), Axis::kRequest);
  EXPECT_THAT(r.batch.request_of_row, ElementsAre(0, 0, 1));
  EXPECT_THAT(seen.offsets, ElementsAre(0, 2, 4));
  EXPECT_THAT(IdsAt(r, 0), ElementsAre(Id(1), Id(2)));
  EXPECT_THAT(IdsAt(r, 1), ElementsAre(Id(5), Id(6)));
  // Counts are those of the flat form: two rows of the first request saw item 1.
  FeatureSet flat = set;
  flat.clear_request();
  Result f;
  f.status = (*FeatureCompiler::Create(flat))->Compile(Requests(), {}, true, &f.batch, &f.bad);
  EXPECT_EQ(f.batch.tables[0].ids, r.batch.tables[0].ids);
  EXPECT_EQ(f.batch.tables[0].counts, r.batch.tables[0].counts);
  EXPECT_EQ(f.bad.size(), r.bad.size());
}

// `expr` over a column of requests, beside one over rows: numbers of both land in their rows.
TEST(PositionsTest, NumbersDerivedFromARequestReachItsRows) {
  FeatureSet set = Features(
      "raws { name: 'a' steps { columns: 'u' expr { text: 'u * 2' } } } "
      "raws { name: 'b' steps { columns: 'u' columns: 'i' expr { text: 'u + i' } } }");
  set.set_request("r");
  set.add_user("u");
  ColumnBatch columns;
  columns.rows = 3;
  columns.columns = {Ints("r", {7, 7, 8}), Ints("u", {1, 1, 2}), Ints("i", {10, 20, 30})};
  ASSERT_TRUE(FormRequests(set, &columns).ok());
  Result r;
  const std::vector<int64_t> rows = {0, 1, 2};
  r.status = (*FeatureCompiler::Create(set))->Compile(columns, rows, true, &r.batch, &r.bad);
  ASSERT_TRUE(r.status.ok()) << r.status;
  EXPECT_THAT(r.batch.dense, ElementsAre(2, 11, 2, 21, 4, 32));
}

}  // namespace
}  // namespace starling
