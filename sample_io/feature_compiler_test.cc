#include "sample_io/feature_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "base/random.h"

namespace starling {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Column Ints(const std::string& name, std::vector<int64_t> values, std::vector<uint8_t> valid = {}) {
  Column column;
  column.name = name;
  column.rows = static_cast<int64_t>(values.size());
  column.ints = std::move(values);
  column.valid = std::move(valid);
  return column;
}
Column Doubles(const std::string& name, std::vector<double> values,
               std::vector<uint8_t> valid = {}) {
  Column column;
  column.name = name;
  column.type = ColumnType::kDouble;
  column.rows = static_cast<int64_t>(values.size());
  column.doubles = std::move(values);
  column.valid = std::move(valid);
  return column;
}
Column Strings(const std::string& name, std::vector<absl::string_view> values,
               std::vector<uint8_t> valid = {}) {
  Column column;
  column.name = name;
  column.type = ColumnType::kString;
  column.rows = static_cast<int64_t>(values.size());
  column.strings = std::move(values);
  column.valid = std::move(valid);
  return column;
}
Column Lists(const std::string& name, const std::vector<std::vector<int64_t>>& lists,
             std::vector<uint8_t> valid = {}) {
  Column column;
  column.name = name;
  column.is_list = true;
  column.rows = static_cast<int64_t>(lists.size());
  column.list_offsets = {0};
  for (const auto& list : lists) {
    column.ints.insert(column.ints.end(), list.begin(), list.end());
    column.list_offsets.push_back(static_cast<int32_t>(column.ints.size()));
  }
  column.valid = std::move(valid);
  return column;
}

ColumnBatch Make(std::vector<Column> columns) {
  ColumnBatch batch;
  batch.rows = columns[0].rows;
  batch.columns = std::move(columns);
  return batch;
}

void AddId(const std::string& name, int table, FeatureSet* set,
           IdFeature::Pooling pooling = IdFeature::SUM, const std::string& vocabulary = "") {
  IdFeature* id = set->add_ids();
  id->set_name(name);
  id->set_vocabulary(vocabulary.empty() ? name : vocabulary);
  id->set_table(table);
  id->set_pooling(pooling);
  set->set_tables(std::max(set->tables(), table + 1));
}
void AddRaw(const std::string& name, FeatureSet* set, RawFeature::Norm norm = RawFeature::NONE,
            double missing = 0) {
  RawFeature* raw = set->add_raws();
  raw->set_name(name);
  raw->set_norm(norm);
  raw->set_missing(missing);
}

struct Result {
  absl::Status status;
  Batch batch;
  std::vector<BadRow> bad;
};
Result Compile(const FeatureSet& set, const ColumnBatch& columns, std::vector<int64_t> rows = {},
               bool with_labels = true) {
  Result result;
  auto compiler = FeatureCompiler::Create(set);
  EXPECT_TRUE(compiler.ok()) << compiler.status();
  result.status = (*compiler)->Compile(columns, rows, with_labels, &result.batch, &result.bad);
  return result;
}

uint64_t Id(const std::string& vocabulary, int64_t value) {
  return HashInt64(value, VocabularySeed(vocabulary));
}

// The ids of one entry of a slot, in order.
std::vector<uint64_t> IdsAt(const TableIds& table, int slot, int entry) {
  const Slot& s = table.slots[slot];
  std::vector<uint64_t> ids;
  for (uint32_t i = s.offsets[entry]; i < s.offsets[entry + 1]; ++i) {
    ids.push_back(table.ids[s.index[i]]);
  }
  return ids;
}

// Everything batch.h promises of a table, whatever its contents.
void CheckTable(const Batch& batch, const TableIds& table) {
  for (size_t u = 1; u < table.ids.size(); ++u) {
    ASSERT_TRUE(IdBefore(table.ids[u - 1], table.ids[u]));
  }
  std::vector<std::vector<std::tuple<uint32_t, uint32_t, float>>> expected(table.ids.size());
  std::vector<int64_t> times(table.ids.size(), 0);
  for (uint32_t s = 0; s < table.slots.size(); ++s) {
    const Slot& slot = table.slots[s];
    ASSERT_EQ(slot.offsets.size(), batch.rows + 1);
    ASSERT_EQ(slot.offsets.back(), slot.index.size());
    ASSERT_TRUE(slot.weights.empty() || slot.weights.size() == slot.index.size());
    EXPECT_EQ(slot.distinct, std::set(slot.index.begin(), slot.index.end()).size());
    for (uint32_t e = 0; e < batch.rows; ++e) {
      for (uint32_t i = slot.offsets[e]; i < slot.offsets[e + 1]; ++i) {
        expected[slot.index[i]].emplace_back(s, e, slot.weights.empty() ? 1 : slot.weights[i]);
        if (!batch.event_times.empty()) {
          times[slot.index[i]] = std::max(times[slot.index[i]], batch.event_times[e]);
        }
      }
    }
  }
  ASSERT_EQ(table.occurrence_offsets.size(), table.ids.size() + 1);
  ASSERT_EQ(table.occurrence_offsets[0], 0u);
  for (size_t u = 0; u < table.ids.size(); ++u) {
    std::vector<std::tuple<uint32_t, uint32_t, float>> actual;
    for (uint32_t o = table.occurrence_offsets[u]; o < table.occurrence_offsets[u + 1]; ++o) {
      const Occurrence occurrence = table.occurrences[o];
      actual.emplace_back(occurrence.slot, occurrence.entry, occurrence.weight);
    }
    ASSERT_EQ(actual, expected[u]);
    ASSERT_EQ(table.counts[u], expected[u].size());
  }
  ASSERT_EQ(table.event_times, times);
}

TEST(FeatureCompilerTest, HandMadeColumnsGiveTheExactBatch) {
  FeatureSet set;
  AddId("a", 0, &set);
  AddId("b", 0, &set, IdFeature::SUM, "a");  // Shares a's vocabulary and table.
  AddId("s", 1, &set);
  AddRaw("x", &set, RawFeature::LOG1P);
  AddRaw("y", &set, RawFeature::NONE, 7.5);
  set.set_label("click");
  set.set_event_time("ts");
  set.set_group("user");
  Result r = Compile(set, Make({Ints("a", {1, 2, 1}), Ints("b", {2, 9, 3}, {1, 0, 1}),
                                Strings("s", {"u", "v", ""}, {1, 1, 1}), Doubles("x", {1, -1, 0}),
                                Ints("y", {4, 0, 6}, {1, 0, 1}), Ints("click", {1, 0, 1}),
                                Ints("ts", {100, 300, 200}), Strings("user", {"p", "q", "p"})}));
  ASSERT_TRUE(r.status.ok()) << r.status;
  EXPECT_THAT(r.bad, IsEmpty());
  const Batch& b = r.batch;
  EXPECT_EQ(b.rows, 3u);
  EXPECT_EQ(b.requests, 3u);
  EXPECT_THAT(b.request_of_row, IsEmpty());
  EXPECT_THAT(b.labels, ElementsAre(1, 0, 1));
  const float ln2 = std::log(2.0f);
  EXPECT_THAT(b.dense, ElementsAre(ln2, 4, -ln2, 7.5, 0, 6));
  EXPECT_THAT(b.event_times, ElementsAre(100, 300, 200));
  EXPECT_EQ(b.event_time_max, 300);
  const uint64_t seed = VocabularySeed("user");
  EXPECT_THAT(b.groups,
              ElementsAre(HashBytes("p", seed), HashBytes("q", seed), HashBytes("p", seed)));

  ASSERT_EQ(b.tables.size(), 2u);
  const TableIds& table = b.tables[0];
  std::vector<uint64_t> ids = {Id("a", 1), Id("a", 2), Id("a", 3)};
  std::map<uint64_t, uint32_t> counts = {{ids[0], 2}, {ids[1], 2}, {ids[2], 1}};
  std::map<uint64_t, int64_t> times = {{ids[0], 200}, {ids[1], 300}, {ids[2], 200}};
  std::sort(ids.begin(), ids.end(), IdBefore);
  EXPECT_EQ(table.ids, ids);
  for (int u = 0; u < 3; ++u) {
    EXPECT_EQ(table.counts[u], counts[ids[u]]);
    EXPECT_EQ(table.event_times[u], times[ids[u]]);
  }
  ASSERT_EQ(table.slots.size(), 2u);
  EXPECT_THAT(table.slots[0].offsets, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(table.slots[1].offsets, ElementsAre(0, 1, 1, 2));  // Row 1 is null.
  EXPECT_THAT(table.slots[0].weights, IsEmpty());
  EXPECT_THAT(IdsAt(table, 1, 0), ElementsAre(Id("a", 2)));
  EXPECT_THAT(IdsAt(b.tables[1], 0, 2), ElementsAre(HashBytes("", VocabularySeed("s"))));
  for (const TableIds& t : b.tables) CheckTable(b, t);
}

TEST(FeatureCompilerTest, PoolingSharesAreFoldedIntoWeights) {
  FeatureSet set;
  AddId("sum", 0, &set, IdFeature::SUM);
  AddId("mean", 0, &set, IdFeature::MEAN);
  AddId("sqrtn", 0, &set, IdFeature::SQRTN);
  const std::vector<std::vector<int64_t>> lists = {{5}, {1, 2, 3, 4}, {}, {8, 8}};
  Result r = Compile(set, Make({Lists("sum", lists), Lists("mean", lists), Lists("sqrtn", lists)}));
  ASSERT_TRUE(r.status.ok()) << r.status;
  const TableIds& table = r.batch.tables[0];
  const float half = 1 / std::sqrt(2.0f);
  EXPECT_THAT(table.slots[0].weights, IsEmpty());
  EXPECT_THAT(table.slots[1].weights, ElementsAre(1, .25, .25, .25, .25, .5, .5));
  EXPECT_THAT(table.slots[2].weights, ElementsAre(1, .5, .5, .5, .5, half, half));
  CheckTable(r.batch, table);
}

TEST(FeatureCompilerTest, ListsOfOneHaveNoWeights) {
  FeatureSet set;
  AddId("mean", 0, &set, IdFeature::MEAN);
  Result r = Compile(set, Make({Lists("mean", {{5}, {}, {6}})}));
  ASSERT_TRUE(r.status.ok());
  EXPECT_THAT(r.batch.tables[0].slots[0].weights, IsEmpty());
}

TEST(FeatureCompilerTest, NullAndEmptyListHaveNoIdAndDuplicatesCountTwice) {
  FeatureSet set;
  AddId("l", 0, &set);
  Result r = Compile(set, Make({Lists("l", {{7, 7}, {}, {}, {7, 9}}, {1, 0, 1, 1})}));
  ASSERT_TRUE(r.status.ok());
  const TableIds& table = r.batch.tables[0];
  EXPECT_THAT(table.slots[0].offsets, ElementsAre(0, 2, 2, 2, 4));
  size_t seven = table.ids[0] == Id("l", 7) ? 0 : 1;
  EXPECT_EQ(table.counts[seven], 3u);
  EXPECT_EQ(table.counts[1 - seven], 1u);
  CheckTable(r.batch, table);
}

// A null must not become the id of some value, nor be mixed up with one.
TEST(FeatureCompilerTest, NullIntegerIsNotAnId) {
  FeatureSet set;
  AddId("a", 0, &set);
  Result r = Compile(set, Make({Ints("a", {0, 0}, {1, 0})}));
  ASSERT_TRUE(r.status.ok());
  EXPECT_THAT(r.batch.tables[0].ids, ElementsAre(Id("a", 0)));
  EXPECT_THAT(r.batch.tables[0].counts, ElementsAre(1));
}

ColumnBatch RandomColumns(int rows) {
  std::vector<int64_t> a, time;
  std::vector<std::vector<int64_t>> lists;
  std::vector<double> label;
  for (int i = 0; i < rows; ++i) {
    a.push_back(static_cast<int64_t>(RandomBelow(1, i, 50)));
    lists.emplace_back();
    for (uint64_t j = 0; j < RandomBelow(2, i, 5); ++j) {
      lists.back().push_back(static_cast<int64_t>(RandomBelow(3, 8 * i + j, 500)));
    }
    time.push_back(static_cast<int64_t>(RandomBelow(4, i, 10000)));
    label.push_back(i % 7 == 3 ? 2.0 : 1.0);
  }
  return Make({Ints("a", a), Lists("l", lists), Ints("ts", time), Doubles("y", label)});
}

FeatureSet RandomSet() {
  FeatureSet set;
  AddId("a", 0, &set);
  AddId("l", 0, &set, IdFeature::MEAN, "a");
  set.set_label("y");
  set.set_event_time("ts");
  return set;
}

TEST(FeatureCompilerTest, LargeBatchKeepsEveryPromiseOfBatch) {
  Result r = Compile(RandomSet(), RandomColumns(5000));
  ASSERT_TRUE(r.status.ok());
  EXPECT_EQ(r.batch.rows + r.bad.size(), 5000u);
  CheckTable(r.batch, r.batch.tables[0]);
}

TEST(FeatureCompilerTest, RowOrderChangesNeitherIdsNorCountsNorTimes) {
  ColumnBatch columns = RandomColumns(300);
  std::vector<int64_t> reversed;
  for (int64_t i = 299; i >= 0; --i) reversed.push_back(i);
  Result forward = Compile(RandomSet(), columns),
         backward = Compile(RandomSet(), columns, reversed);
  const TableIds &f = forward.batch.tables[0], &b = backward.batch.tables[0];
  EXPECT_EQ(f.ids, b.ids);
  EXPECT_EQ(f.counts, b.counts);
  EXPECT_EQ(f.event_times, b.event_times);
  const int rows = static_cast<int>(forward.batch.rows);
  for (int row = 0; row < rows; ++row) {
    EXPECT_EQ(IdsAt(f, 1, row), IdsAt(b, 1, rows - 1 - row));
  }
  CheckTable(backward.batch, b);
}

TEST(FeatureCompilerTest, ReusedBatchEqualsAFreshOne) {
  auto compiler = *FeatureCompiler::Create(RandomSet());
  ColumnBatch columns = RandomColumns(400);
  std::vector<BadRow> bad;
  Batch reused, fresh;
  ASSERT_TRUE(compiler->Compile(RandomColumns(3000), {}, true, &reused, &bad).ok());
  std::vector<int64_t> rows = {5, 1, 399, 20};
  ASSERT_TRUE(compiler->Compile(columns, rows, true, &reused, &bad).ok());
  ASSERT_TRUE(compiler->Compile(columns, rows, true, &fresh, &bad).ok());
  EXPECT_EQ(reused.labels, fresh.labels);
  EXPECT_EQ(reused.event_time_max, fresh.event_time_max);
  EXPECT_EQ(reused.tables[0].ids, fresh.tables[0].ids);
  EXPECT_EQ(reused.tables[0].slots[1].weights, fresh.tables[0].slots[1].weights);
  CheckTable(reused, reused.tables[0]);
}

TEST(FeatureCompilerTest, BadValuesDropTheRowAndSayWhy) {
  FeatureSet set;
  AddId("a", 0, &set);
  AddRaw("x", &set);
  set.set_label("y");
  set.set_event_time("ts");
  Result r = Compile(
      set, Make({Ints("a", {1, 2, 3, 4, 5, 6, 7, 8, 9}),
                 Doubles("x", {0, kNan, kInf, -kInf, 1e300, 0, 0, 0, 5}),
                 Doubles("y", {0, 0, 0, 0, 0, kNan, 1.01, -0.5, .5}, {1, 1, 1, 1, 1, 1, 1, 1, 1}),
                 Ints("ts", {1, 1, 1, 1, 1, 1, 1, 1, 1}, {0, 1, 1, 1, 1, 1, 1, 1, 1})}));
  ASSERT_TRUE(r.status.ok());
  EXPECT_EQ(r.batch.rows, 1u);
  EXPECT_THAT(r.batch.labels, ElementsAre(.5));
  EXPECT_THAT(r.batch.dense, ElementsAre(5));
  EXPECT_THAT(r.batch.tables[0].ids, ElementsAre(Id("a", 9)));
  ASSERT_EQ(r.bad.size(), 8u);
  const std::vector<std::pair<std::string, std::string>> why = {
      {"ts", "null"},  {"x", "nan"}, {"x", "inf"},  {"x", "-inf"},
      {"x", "1e+300"}, {"y", "nan"}, {"y", "1.01"}, {"y", "-0.5"}};
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(r.bad[i].row, i);
    EXPECT_EQ(r.bad[i].column, why[i].first);
    EXPECT_THAT(r.bad[i].reason, HasSubstr(why[i].second));
  }
}

TEST(FeatureCompilerTest, NullLabelIsBadAndAllNullRawTakesMissing) {
  FeatureSet set;
  AddRaw("x", &set, RawFeature::LOG1P, 1);
  set.set_label("y");
  Result r = Compile(set, Make({Ints("x", {0, 0}, {0, 0}), Ints("y", {1, 1}, {1, 0})}));
  ASSERT_TRUE(r.status.ok());
  EXPECT_THAT(r.batch.dense, ElementsAre(std::log1p(1.0f)));
  ASSERT_EQ(r.bad.size(), 1u);
  EXPECT_EQ(r.bad[0].column, "y");
  EXPECT_THAT(r.bad[0].reason, HasSubstr("null"));
}

void ExpectRefused(const FeatureSet& set, Column column, const std::vector<std::string>& words) {
  Result r = Compile(set, Make({std::move(column)}));
  EXPECT_EQ(r.status.code(), absl::StatusCode::kFailedPrecondition);
  for (const std::string& word : words) EXPECT_THAT(r.status.message(), HasSubstr(word));
}

TEST(FeatureCompilerTest, ColumnOfAWrongTypeFailsNamingColumnAndBothTypes) {
  FeatureSet id, raw, label, time, group;
  AddId("c", 0, &id);
  AddRaw("c", &raw);
  label.set_label("c");
  time.set_event_time("c");
  group.set_group("c");
  ExpectRefused(id, Doubles("c", {1}), {"column c", "integers or strings", "floating-point"});
  ExpectRefused(raw, Strings("c", {"1"}), {"column c", "a number", "string"});
  ExpectRefused(raw, Lists("c", {{1}}), {"column c", "a number", "list of integers"});
  ExpectRefused(label, Strings("c", {"1"}), {"column c", "a number", "string"});
  ExpectRefused(label, Lists("c", {{1}}), {"column c", "a number", "list"});
  ExpectRefused(time, Doubles("c", {1}), {"column c", "timestamp", "floating-point"});
  ExpectRefused(time, Strings("c", {"1"}), {"column c", "timestamp", "string"});
  ExpectRefused(group, Doubles("c", {1}), {"column c", "integer or a string"});
  ExpectRefused(id, Ints("other", {1}), {"column c", "not in the data"});
}

TEST(FeatureCompilerTest, ServingNeedsNoLabelEventTimeOrGroup) {
  FeatureSet set;
  AddId("a", 0, &set);
  set.set_label("y");
  set.set_event_time("ts");
  set.set_group("a");
  Result r = Compile(set, Make({Ints("a", {1, 2})}), {}, false);
  ASSERT_TRUE(r.status.ok()) << r.status;
  EXPECT_EQ(r.batch.rows, 2u);
  EXPECT_THAT(r.batch.labels, IsEmpty());
  EXPECT_THAT(r.batch.groups, IsEmpty());
  EXPECT_THAT(r.batch.event_times, IsEmpty());
  EXPECT_THAT(r.batch.tables[0].event_times, ElementsAre(0, 0));
  EXPECT_THAT(ColumnsOf(set, false), ElementsAre("a"));
  EXPECT_THAT(ColumnsOf(set, true), ElementsAre("a", "y", "ts"));
}

TEST(FeatureCompilerTest, NoRowsGiveAnEmptyBatch) {
  Result r = Compile(RandomSet(), RandomColumns(0));
  ASSERT_TRUE(r.status.ok());
  EXPECT_EQ(r.batch.rows, 0u);
  CheckTable(r.batch, r.batch.tables[0]);
}

TEST(FeatureCompilerTest, TableOutOfRangeAndEndlessMissingAreRefused) {
  FeatureSet table;
  AddId("a", 0, &table);
  table.set_tables(0);
  EXPECT_EQ(FeatureCompiler::Create(table).status().code(), absl::StatusCode::kInvalidArgument);
  FeatureSet missing;
  AddRaw("x", &missing, RawFeature::NONE, kInf);
  EXPECT_EQ(FeatureCompiler::Create(missing).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace starling
