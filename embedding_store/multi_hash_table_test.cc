// The table of ids is held against a plain table of part rows that is driven,
// one id after another, by the definition.
#include "embedding_store/multi_hash_table.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "embedding_store/multi_hash.h"
#include "embedding_store/table_test_util.h"

namespace starling {
namespace {

using Rows = std::map<uint64_t, std::tuple<uint32_t, int64_t, std::vector<float>>>;

Rows RowsOf(const EmbeddingTable& table) {
  Rows rows;
  EXPECT_TRUE(table
                  .ForEach([&](uint64_t id, const RowMeta& meta, std::span<const float> floats) {
                    rows[id] = {meta.frequency, meta.event_time, {floats.begin(), floats.end()}};
                  })
                  .ok());
  return rows;
}

std::unique_ptr<EmbeddingTable> Open(const TableSpec& spec) {
  auto table = EmbeddingTable::Open(spec, {});
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

class MultiHashTableTest : public testing::TestWithParam<MultiHashOptions::Combine> {
 protected:
  TableSpec Spec(int64_t rows) const {
    TableSpec spec = MakeSpec("adagrad");
    spec.mutable_options()->mutable_multi_hash()->set_rows(rows);
    spec.mutable_options()->mutable_multi_hash()->set_combine(GetParam());
    return spec;
  }
  std::pair<uint64_t, uint64_t> PartsOf(const TableSpec& spec, uint64_t id) const {
    const MultiHashParts parts = SplitIds(spec.options().multi_hash(), {&id, 1});
    return {parts.ids[0], parts.ids[1]};
  }
  std::vector<float> Combined(const EmbeddingTable& plain, const TableSpec& spec,
                              uint64_t id) const {
    const auto [first, second] = PartsOf(spec, id);
    const size_t w = plain.width();
    std::vector<float> a(w), b(w);
    EXPECT_TRUE(plain.Lookup({&first, 1}, a).ok() && plain.Lookup({&second, 1}, b).ok());
    for (size_t j = 0; j < w; ++j) {
      a[j] = GetParam() == MultiHashOptions::ADD ? a[j] + b[j] : a[j] * (1 + b[j]);
    }
    return a;
  }
  // Two ids that share their first part and no other.
  std::pair<uint64_t, uint64_t> Sharers(const TableSpec& spec) const {
    const std::vector<uint64_t> ids = MakeIds(0, 1000);
    for (size_t i = 1; i < ids.size(); ++i) {
      const auto [a, b] = PartsOf(spec, ids[0]);
      const auto [c, d] = PartsOf(spec, ids[i]);
      if (a == c && b != d) return {ids[0], ids[i]};
    }
    ADD_FAILURE() << "no two ids share a part";
    return {0, 0};
  }
  TestDir dir_;
};
INSTANTIATE_TEST_SUITE_P(Combine, MultiHashTableTest,
                         testing::Values(MultiHashOptions::ADD, MultiHashOptions::MULTIPLY),
                         [](const auto& info) {
                           return std::string(info.param == MultiHashOptions::ADD ? "add"
                                                                                  : "multiply");
                         });

TEST_P(MultiHashTableTest, EqualsAPlainTableOfPartsDrivenByTheDefinition) {
  const TableSpec spec = Spec(8);
  TableSpec plain_spec = spec;
  plain_spec.mutable_options()->clear_multi_hash();
  auto table = Open(spec), plain = Open(plain_spec);
  const size_t w = table->width();
  for (int step = 0; step < 40; ++step) {
    const std::vector<uint64_t> ids = MakeIds(7 * step, 1 + step % 30);
    std::vector<uint32_t> counts;
    std::vector<int64_t> times;
    std::vector<float> grads;
    std::map<uint64_t, uint32_t> part_counts;
    std::map<uint64_t, int64_t> part_times;
    for (size_t i = 0; i < ids.size(); ++i) {
      counts.push_back(1 + i % 3);
      times.push_back(RandomBelow(step, i, 1000));
      for (size_t j = 0; j < w; ++j) grads.push_back(RandomNormal(step, i * w + j));
      const auto [a, b] = PartsOf(spec, ids[i]);
      for (uint64_t p : {a, b}) {
        part_counts[p] += counts[i];
        part_times[p] = std::max(part_times[p], times[i]);
      }
    }
    std::vector<float> weights(ids.size() * w), one(w);
    ASSERT_OK(table->LookupOrCreate(ids, counts, times, weights));
    for (auto [part, count] : part_counts) {
      ASSERT_OK(plain->LookupOrCreate({&part, 1}, {&count, 1}, {&part_times[part], 1}, one));
    }
    std::map<uint64_t, std::vector<float>> part_grads;
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto [a, b] = PartsOf(spec, ids[i]);
      std::vector<float> wa(w), wb(w);
      ASSERT_OK(plain->Lookup({&a, 1}, wa));
      ASSERT_OK(plain->Lookup({&b, 1}, wb));
      part_grads[a].resize(w);
      part_grads[b].resize(w);
      const bool add = GetParam() == MultiHashOptions::ADD;
      for (size_t j = 0; j < w; ++j) {
        part_grads[a][j] += grads[i * w + j] * (add ? 1 : 1 + wb[j]);
        part_grads[b][j] += grads[i * w + j] * (add ? 1 : wa[j]);
      }
      EXPECT_EQ(std::vector<float>(weights.begin() + i * w, weights.begin() + (i + 1) * w),
                Combined(*plain, spec, ids[i]));
    }
    ASSERT_OK(table->ApplyGradients(ids, grads, 0.5f));
    for (auto& [part, grad] : part_grads) {
      ASSERT_OK(plain->ApplyGradients({&part, 1}, grad, 0.5f));
    }
    ASSERT_EQ(RowsOf(*table), RowsOf(*plain)) << "step " << step;
  }
  EXPECT_EQ(table->rows(), 16);
  const std::vector<uint64_t> ids = MakeIds(5000, 50);  // Never seen; their parts were.
  std::vector<float> weights(ids.size() * w);
  ASSERT_OK(table->Lookup(ids, weights));
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(std::vector<float>(weights.begin() + i * w, weights.begin() + (i + 1) * w),
              Combined(*plain, spec, ids[i]));
  }
}

TEST_P(MultiHashTableTest, APartWithoutARowCountsAsZeros) {
  TableSpec spec = Spec(50);
  spec.mutable_options()->mutable_admit()->set_count(2);
  auto table = Open(spec);
  const auto [one, two] = Sharers(spec);
  const size_t w = table->width();
  std::vector<float> weights(w, 9), zeros(w);
  ASSERT_OK(table->Lookup({&one, 1}, weights));
  EXPECT_EQ(weights, zeros);
  ASSERT_OK(table->LookupOrCreate({&one, 1}, {}, {}, weights));
  EXPECT_EQ(weights, zeros) << "both parts were seen once";
  EXPECT_EQ(table->rows(), 0);
  ASSERT_OK(table->LookupOrCreate({&two, 1}, {}, {}, weights));
  EXPECT_EQ(table->rows(), 1) << "the shared part was seen twice";
  EXPECT_NE(weights, zeros);
  const uint64_t shared = PartsOf(spec, one).first;
  const Rows rows = RowsOf(*table);
  ASSERT_TRUE(rows.contains(shared));
  const std::vector<float>& floats = std::get<2>(rows.at(shared));
  EXPECT_EQ(weights, std::vector<float>(floats.begin(), floats.begin() + w));
  const std::vector<float> grads(w, 1);
  ASSERT_OK(table->ApplyGradients({&one, 1}, grads, 1));  // The known part learns.
  EXPECT_NE(RowsOf(*table), rows);
  EXPECT_EQ(table->rows(), 1);
}

TEST_P(MultiHashTableTest, WeightsThatStartAtZeroLearn) {
  TableSpec spec = Spec(50);
  spec.mutable_segments()->RemoveLast();  // The linear weight alone, with init 0.
  *spec.mutable_segments(0)->mutable_optimizer() = OptimizerNamed("sgd");
  auto table = Open(spec);
  const uint64_t id = 7;
  float weight = 1;
  ASSERT_OK(table->LookupOrCreate({&id, 1}, {}, {}, {&weight, 1}));
  EXPECT_EQ(weight, 0);
  for (int step = 0; step < 200; ++step) {
    ASSERT_OK(table->Lookup({&id, 1}, {&weight, 1}));
    const float grad = weight - 3;  // Towards 3.
    ASSERT_OK(table->ApplyGradients({&id, 1}, {&grad, 1}, 1));
  }
  EXPECT_NEAR(weight, 3, 1e-3);
}

TEST_P(MultiHashTableTest, EraseAndDeltasLeaveTheRowsThatIdsShare) {
  auto table = Open(Spec(50));
  const std::vector<uint64_t> ids = MakeIds(0, 100);
  std::vector<float> weights(ids.size() * table->width());
  ASSERT_OK(table->LookupOrCreate(ids, {}, {}, weights));
  const Rows rows = RowsOf(*table);
  ASSERT_OK(table->Erase(ids));
  EXPECT_EQ(RowsOf(*table), rows);
  EXPECT_EQ(table->ApplyDeltas(ids, weights).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(RowsOf(*table), rows);
}

TEST_P(MultiHashTableTest, ASnapshotRestoresAndOtherSettingsAreRefusedByName) {
  const TableSpec spec = Spec(50);
  auto table = Open(spec);
  const std::vector<uint64_t> ids = MakeIds(0, 300);
  std::vector<float> weights(ids.size() * table->width());
  ASSERT_OK(table->LookupOrCreate(ids, {}, {}, weights));
  const std::string file = dir_.File("rows");
  ASSERT_OK(table->Snapshot(file).status());
  auto all = [](uint64_t) { return true; };
  auto copy = Open(spec);
  ASSERT_OK(copy->Restore(file, all));
  EXPECT_EQ(RowsOf(*copy), RowsOf(*table));
  std::vector<float> restored(weights.size());
  ASSERT_OK(copy->Lookup(ids, restored));
  EXPECT_EQ(restored, weights);

  TableSpec plain = spec, larger = Spec(51), other = spec;
  plain.mutable_options()->clear_multi_hash();
  other.mutable_options()->mutable_multi_hash()->set_combine(
      GetParam() == MultiHashOptions::ADD ? MultiHashOptions::MULTIPLY : MultiHashOptions::ADD);
  for (const TableSpec& wrong : {plain, larger, other}) {
    auto fresh = Open(wrong);
    const absl::Status status = fresh->Restore(file, all);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_NE(status.message().find("multi_hash {rows: 50"), std::string::npos) << status;
    EXPECT_EQ(fresh->rows(), 0);
  }
}

TEST_P(MultiHashTableTest, WrongSizesAndSettingsAreErrors) {
  EXPECT_TRUE(absl::IsInvalidArgument(EmbeddingTable::Open(Spec(1), {}).status()));
  auto table = Open(Spec(50));
  const std::vector<uint64_t> ids = {1, 2};
  std::vector<float> short_weights(2 * table->width() - 1), weights(2 * table->width());
  EXPECT_TRUE(absl::IsInvalidArgument(table->Lookup(ids, short_weights)));
  EXPECT_TRUE(absl::IsInvalidArgument(table->LookupOrCreate(ids, {}, {}, short_weights)));
  EXPECT_TRUE(absl::IsInvalidArgument(table->ApplyGradients(ids, short_weights, 1)));
  const uint32_t count = 1;
  const int64_t time = 1;
  EXPECT_TRUE(absl::IsInvalidArgument(table->LookupOrCreate(ids, {&count, 1}, {}, weights)));
  EXPECT_TRUE(absl::IsInvalidArgument(table->LookupOrCreate(ids, {}, {&time, 1}, weights)));
  uint32_t place = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(table->LookupOrCreate(ids, {}, {}, weights, {&place, 1})));
  EXPECT_TRUE(absl::IsInvalidArgument(table->ApplyGradients(ids, weights, 1, {&place, 1})));
}

}  // namespace
}  // namespace starling
