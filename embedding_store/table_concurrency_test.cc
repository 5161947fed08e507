// Many threads on one table. Run under ThreadSanitizer too.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
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

// Writers, readers, the sweep, the demoter and snapshots at once. Kept ids are
// always of the latest event time and every step adds 1 to their weights; ids
// of another thread are old when they come, so they are evicted all the time.
TEST_P(TableConcurrencyTest, EverythingAtOnceCountsExactly) {
  constexpr int kThreads = 2, kRounds = 6, kKept = 1200;
  constexpr int64_t kOld = 1000, kNow = 10'000;
  TestDir dir;
  TableSpec spec = MakeSpec("count");
  for (SegmentSpec& segment : *spec.mutable_segments()) {
    segment.mutable_optimizer()->mutable_count();
    segment.set_init(0);
  }
  spec.mutable_options()->set_tier(GetParam());
  spec.mutable_options()->mutable_evict()->set_ttl(100);
  spec.mutable_options()->set_memory(GetParam() == TableOptions::ROCKSDB ? kTinyMemory : 16 << 20);
  auto opened = EmbeddingTable::Open(spec, {.scratch_dir = dir.File("scratch")});
  ASSERT_OK(opened.status());
  EmbeddingTable& table = **opened;
  std::atomic<bool> done{false};
  std::atomic<int> failures{0};
  auto check = [&failures](const absl::Status& status) { failures += !status.ok(); };
  auto create = [&](const std::vector<uint64_t>& ids, const std::vector<int64_t>& times) {
    std::vector<float> weights(ids.size() * 5);
    check(table.LookupOrCreate(ids, {}, times, weights));
  };
  create(MakeIds(0, kKept), std::vector<int64_t>(kKept, kNow));
  std::vector<std::function<void()>> work;
  for (int t = 0; t < kThreads; ++t) {
    work.push_back([&, t] {
      for (int part = 0; part < 4 * kRounds; ++part) {
        const std::vector<uint64_t> ids = MakeIds((part + t) % 4 * kKept / 4, kKept / 4);
        create(ids, std::vector<int64_t>(ids.size(), kNow));
        check(table.ApplyGradients(ids, std::vector<float>(ids.size() * 5), 1.0f));
        check(table.ApplyDeltas(ids, std::vector<float>(ids.size() * 5, 100.0f)));
      }
    });
  }
  work.push_back([&] {  // Ids that go. One of the others keeps the clock where it is.
    for (int i = 0; i < 40; ++i) {
      std::vector<uint64_t> ids = MakeIds(100'000 + i * 25, 50);
      std::vector<int64_t> times(ids.size(), kOld);
      ids.push_back(MakeIds(0, 1)[0]);
      times.push_back(kNow);
      create(ids, times);
      check(table.Erase(std::span(ids).first(3)));
    }
  });
  auto observe = [&] {
    const std::vector<uint64_t> ids = MakeIds(0, 200);
    std::vector<float> weights(ids.size() * 5);
    for (int i = 0; !done; ++i) {
      table.Prefetch(ids);
      check(table.Lookup(ids, weights));
      for (size_t f = 0; f < weights.size(); f += 5) {  // A row is stepped as a whole.
        failures += !std::equal(&weights[f + 1], &weights[f] + 5, &weights[f]);
      }
      if (table.stats().bytes_memory > spec.options().memory()) ++failures;
      if (i % 4 == 0) check(SnapshotTo(&table, dir.File("t.rows")));
    }
  };
  std::vector<std::thread> threads;
  for (auto& fn : work) threads.emplace_back(fn);
  std::thread observer(observe);
  for (std::thread& t : threads) t.join();
  done = true;
  observer.join();
  EXPECT_EQ(failures, 0);
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (table.rows() > kKept && absl::Now() < deadline) {
    ASSERT_OK(table.ApplyGradients({}, {}, 1.0f));
    absl::SleepFor(absl::Milliseconds(1));
  }
  const TableStats stats = table.stats();
  EXPECT_EQ(stats.created - stats.expired - stats.evicted - stats.erased, kKept);
  EXPECT_GT(stats.evicted, 500);
  int rows = 0;
  ASSERT_OK(table.ForEach([&](uint64_t id, const RowMeta&, std::span<const float> floats) {
    // Five weights, then of each of the two segments the number of its steps.
    std::vector<float> counted(5, 101.0f * kThreads * kRounds);
    counted.resize(7, 1.0f * kThreads * kRounds);
    EXPECT_EQ(std::vector<float>(floats.begin(), floats.end()), counted) << id;
    ++rows;
  }));
  EXPECT_EQ(rows, kKept);
}

// With update: dense two calls at once are two steps of every row, also of
// rows that both name.
TEST(TableDenseConcurrencyTest, EveryCallIsOneStepOfEveryRow) {
  constexpr int kThreads = 4, kCalls = 50;
  TableSpec spec = MakeSpec("count");
  *spec.mutable_segments(0)->mutable_optimizer() = OptimizerNamed("count");
  spec.mutable_segments(1)->set_init(0);
  spec.mutable_options()->set_update(TableOptions::DENSE);
  spec.mutable_options()->set_memory(8 << 20);
  auto table = EmbeddingTable::Open(spec, {});
  ASSERT_OK(table.status());
  const std::vector<uint64_t> ids = MakeIds(0, 1000);
  std::vector<float> weights(ids.size() * 5);
  ASSERT_OK((*table)->LookupOrCreate(ids, {}, {}, weights));
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kCalls; ++i) {
        const auto named = std::span(ids).first(700);
        failures +=
            !(*table)->ApplyGradients(named, std::vector<float>(named.size() * 5), 1.0f).ok();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(failures, 0);
  ASSERT_OK((*table)->Lookup(ids, weights));
  EXPECT_EQ(weights, std::vector<float>(weights.size(), kThreads * kCalls));
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
