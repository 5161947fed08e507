// Many threads on one table. Run under ThreadSanitizer too.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/sync_point.h"
#include "embedding_store/embedding_table.h"
#include "embedding_store/table_test_util.h"

namespace starling {
namespace {

class TableConcurrencyTest : public testing::TestWithParam<TableOptions::Tier> {};

INSTANTIATE_TEST_SUITE_P(Tiers, TableConcurrencyTest,
                         testing::Values(TableOptions::MEMORY, TableOptions::ROCKSDB),
                         [](const auto& info) { return TableOptions::Tier_Name(info.param); });

// Every thread gives every id the same steps, so the order does not matter and
// the outcome is exact: one update lost or doubled shows.
TEST_P(TableConcurrencyTest, NoUpdateIsLostBetweenWritersReadersAndSnapshots) {
  constexpr int kThreads = 3, kRounds = 4, kIds = 2000;
  TestDir dir;
  TableSpec spec = MakeSpec("sgd");
  spec.mutable_options()->set_tier(GetParam());
  if (GetParam() == TableOptions::ROCKSDB) spec.mutable_options()->set_memory(kTinyMemory);
  auto opened = EmbeddingTable::Open(spec, {.scratch_dir = dir.File("scratch")});
  ASSERT_OK(opened.status());
  EmbeddingTable& table = **opened;
  std::atomic<bool> done{false};
  std::atomic<int> failures{0};
  auto check = [&failures](const absl::Status& status) { failures += !status.ok(); };
  auto write = [&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      for (int part = 0; part < 4; ++part) {
        std::vector<uint64_t> ids = MakeIds((part + thread) % 4 * kIds / 4, kIds / 4);
        std::vector<float> weights(ids.size() * 5), grads(weights.size(), 0.5f);
        table.Prefetch(ids);
        check(table.LookupOrCreate(ids, {}, {}, weights));
        check(table.ApplyGradients(ids, grads, 1.0f));
      }
    }
  };
  auto read = [&] {
    std::vector<uint64_t> ids = MakeIds(0, 500);
    std::vector<float> weights(ids.size() * 5);
    for (int i = 0; !done; ++i) {
      check(table.Lookup(ids, weights));
      if (i % 4 == 0) check(SnapshotTo(&table, dir.File("t.rows")));
      if (table.stats().bytes_memory > spec.options().memory()) ++failures;
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back(write, t);
  std::thread reader(read);
  for (std::thread& t : threads) t.join();
  done = true;
  reader.join();
  EXPECT_EQ(failures, 0);

  RowLayout layout = *RowLayout::Create(spec);
  std::vector<float> expected(layout.floats()), grad(5, 0.5f);
  int rows = 0;
  ASSERT_OK(table.ForEach([&](uint64_t id, const RowMeta& meta, std::span<const float> floats) {
    layout.InitRow(TableSeed(spec), id, expected);
    for (int i = 0; i < kThreads * kRounds; ++i) layout.Apply(1.0f, expected, grad);
    EXPECT_EQ(std::vector<float>(floats.begin(), floats.end()), expected) << id;
    EXPECT_EQ(meta.frequency, static_cast<uint32_t>(kThreads * kRounds));
    ++rows;
  }));
  EXPECT_EQ(rows, kIds);
}

TEST(TableSyncPointTest, DemotionPromotionAndSnapshotBlocksCanBeStoppedAt) {
  TestDir dir;
  TableSpec spec = MakeSpec("sgd");
  spec.mutable_options()->set_tier(TableOptions::ROCKSDB);
  spec.mutable_options()->set_memory(kTinyMemory);
  auto table = EmbeddingTable::Open(spec, {.scratch_dir = dir.File("scratch")});
  ASSERT_OK(table.status());
  std::atomic<int> demotions{0}, promotions{0}, blocks{0};
  SetSyncPointHandler([&](absl::string_view name) {
    demotions += name == "store.demote.write";
    promotions += name == "store.promote";
    blocks += name == "row_file.block";
  });
  std::vector<uint64_t> ids = MakeIds(0, 3000);
  std::vector<float> weights(ids.size() * 5);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE((*table)->LookupOrCreate(ids, {}, {}, weights).ok());
  EXPECT_TRUE(SnapshotTo(table->get(), dir.File("t.rows")).ok());
  SetSyncPointHandler(nullptr);
  EXPECT_GT(demotions, 0);
  EXPECT_EQ(promotions, (*table)->stats().promoted);
  EXPECT_GT(promotions, 0);
  EXPECT_EQ(blocks, 2);  // Rows in memory, and cold ones.
}

}  // namespace
}  // namespace starling
