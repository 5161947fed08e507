// Which rows leave memory, and that they come back the same from wherever they are.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "embedding_store/embedding_table.h"
#include "embedding_store/table_test_util.h"

namespace starling {
namespace {

constexpr int64_t kMemory = 512 << 10;  // Of a few thousand rows.
constexpr int kCall = 500;              // Ids.

class ColdTierTest : public testing::Test {
 protected:
  std::unique_ptr<EmbeddingTable> Open(TableOptions::Tier tier, int64_t memory = kMemory) {
    TableSpec spec = MakeSpec("sgd");
    spec.mutable_options()->set_tier(tier);
    if (tier == TableOptions::ROCKSDB) spec.mutable_options()->set_memory(memory);
    auto table = EmbeddingTable::Open(spec, {.scratch_dir = dir_.File("scratch")});
    EXPECT_TRUE(table.ok()) << table.status();
    return *std::move(table);
  }
  // Drops what the page cache holds of the table's files, where there is a disk below it.
  void ForgetPages() {
    for (const auto& entry : std::filesystem::directory_iterator(dir_.File("scratch"))) {
      const int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
      if (fd < 0) continue;  // A compaction ended meanwhile.
      posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      close(fd);
    }
  }
  TestDir dir_;
};

void Train(EmbeddingTable* table, const std::vector<uint64_t>& ids) {
  std::vector<float> weights(ids.size() * table->width()), grads(weights.size(), 0.5f);
  ASSERT_OK(table->LookupOrCreate(ids, {}, {}, weights));
  ASSERT_OK(table->ApplyGradients(ids, grads, 1.0f));
}

// Ids that come once each.
void Flood(EmbeddingTable* table, int begin, int count) {
  for (int i = 0; i < count; i += kCall) Train(table, MakeIds(begin + i, kCall));
}

int64_t ColdAmong(const EmbeddingTable& table, const std::vector<uint64_t>& ids) {
  const int64_t before = table.stats().hits_cold;
  std::vector<float> weights(ids.size() * table.width());
  EXPECT_TRUE(table.Lookup(ids, weights).ok());
  return table.stats().hits_cold - before;
}

TEST_F(ColdTierTest, RowsAreTheSameFromMemoryPageCacheAndDisk) {
  constexpr int kRows = 20'000;
  auto table = Open(TableOptions::ROCKSDB), memory = Open(TableOptions::MEMORY);
  Flood(table.get(), 0, kRows);
  Flood(memory.get(), 0, kRows);
  const std::vector<uint64_t> ids = MakeIds(0, kRows + 100);  // Some of them are nowhere.
  std::vector<float> expected(ids.size() * memory->width()), got(expected.size());
  ASSERT_OK(memory->Lookup(ids, expected));
  for (int round = 0; round < 3; ++round) {
    ForgetPages();
    ASSERT_OK(table->Lookup(ids, got));
    EXPECT_EQ(got, expected);
    ForgetPages();
    table->Prefetch(MakeIds(round * kCall, kCall));
    EXPECT_LE(table->stats().bytes_memory, kMemory);
  }
  EXPECT_GT(ColdAmong(*table, ids), kRows / 2);
}

// RocksDB's files, each with its index and filter, are the larger the more memory there is.
TEST_F(ColdTierTest, RowsOfALargerTableAreTheSameFromTheColdTier) {
  constexpr int kRows = 300'000, kStep = 10'000;
  constexpr int64_t kLarger = 8 << 20;
  auto table = Open(TableOptions::ROCKSDB, kLarger), memory = Open(TableOptions::MEMORY);
  for (int i = 0; i < kRows; i += kStep) {
    const std::vector<uint64_t> ids = MakeIds(i, kStep);
    Train(table.get(), ids);
    Train(memory.get(), ids);
  }
  ForgetPages();
  const std::vector<uint64_t> ids = MakeIds(0, kRows + 100);  // Some of them are nowhere.
  std::vector<float> expected(ids.size() * memory->width()), got(expected.size());
  ASSERT_OK(memory->Lookup(ids, expected));
  ASSERT_OK(table->Lookup(ids, got));
  EXPECT_EQ(got, expected);
  EXPECT_LE(table->stats().bytes_memory, kLarger);
  EXPECT_GT(table->stats().rows_cold, kRows / 4);
}

// Merging by levels would write them more than eight times each.
TEST_F(ColdTierTest, RowsAreWrittenAFewTimesAtMost) {
  constexpr int64_t kLarger = 4 << 20;
  auto table = Open(TableOptions::ROCKSDB, kLarger);
  for (int i = 0; i < 100; ++i) Train(table.get(), MakeIds(i * 5'000, 5'000));
  const TableStats stats = table->stats();
  EXPECT_GT(stats.cold_bytes_given, 4 * kLarger);
  const auto given = static_cast<double>(stats.cold_bytes_given);
  EXPECT_LT(static_cast<double>(stats.cold_bytes_written) / given, 6.5);
}

TEST_F(ColdTierTest, WhatIsSeenOftenStaysAndLeavesWhenItIsSeenNoMore) {
  auto table = Open(TableOptions::ROCKSDB);
  const std::vector<uint64_t> often = MakeIds(1'000'000, 400);
  for (int i = 0; i < 8; ++i) Train(table.get(), often);
  Flood(table.get(), 0, 6000);
  EXPECT_GT(table->stats().rows_cold, 1000);
  EXPECT_EQ(ColdAmong(*table, often), 0);
  Flood(table.get(), 6000, 120'000);
  EXPECT_GT(ColdAmong(*table, often), 300);
}

TEST_F(ColdTierTest, WhatWasPrefetchedStaysUntilItsStep) {
  auto table = Open(TableOptions::ROCKSDB);
  const std::vector<uint64_t> ids = MakeIds(1'000'000, 400);
  Train(table.get(), ids);
  Flood(table.get(), 0, 20'000);
  EXPECT_GT(ColdAmong(*table, ids), 300);
  table->Prefetch(ids);
  Flood(table.get(), 20'000, 6000);
  EXPECT_EQ(ColdAmong(*table, ids), 0);
  ASSERT_OK(table->ApplyGradients(ids, std::vector<float>(ids.size() * table->width()), 1.0f));
  Flood(table.get(), 26'000, 20'000);
  EXPECT_GT(ColdAmong(*table, ids), 300);
}

// A row that leaves memory while others are read makes some of these doubtful, to be read again.
TEST_F(ColdTierTest, ReadingRowsMakesRoomForThemFirst) {
  constexpr int kRounds = 12, kIds = 350;
  double least =
      100;  // Of some tries: the keeper demotes rows too, more of them on a busy machine.
  for (int attempt = 0; attempt < 3; ++attempt) {
    auto table = Open(TableOptions::ROCKSDB);
    Flood(table.get(), 0, 20'000);
    const int64_t before = table->stats().cold_bytes_wanted;
    for (int round = 0; round < kRounds; ++round) {
      const std::vector<uint64_t> ids = MakeIds(kIds * round, kIds);
      table->Prefetch(ids);
      ASSERT_OK(table->ApplyGradients(ids, std::vector<float>(ids.size() * table->width()), 1.0f));
    }
    const int64_t row = int64_t{20} + table->layout().body_bytes();
    const auto rows = static_cast<double>((table->stats().cold_bytes_wanted - before) / row);
    least = std::min(least, rows / (kRounds * kIds));
  }
  EXPECT_LT(least, 1.1);
}

TEST_F(ColdTierTest, NewIdsThatWerePrefetchedAreNotSearchedForTwice) {
  auto table = Open(TableOptions::ROCKSDB), memory = Open(TableOptions::MEMORY);
  Flood(table.get(), 0, 20'000);
  const std::vector<uint64_t> ids = MakeIds(1'000'000, 100);
  table->Prefetch(ids);
  const int64_t before = table->stats().cold_bytes_wanted;
  Train(table.get(), ids);
  const int64_t row = int64_t{20} + table->layout().body_bytes();
  // Of a hundred; notes may collide, also with those of rows that are leaving meanwhile.
  EXPECT_LT(table->stats().cold_bytes_wanted - before, 50 * row);
  // From here on they have rows, wherever these are.
  for (int round = 0; round < 3; ++round) {
    Flood(table.get(), 20'000 * (round + 1), 20'000);
    EXPECT_GT(ColdAmong(*table, ids), 80);
    Train(table.get(), ids);
  }
  for (int i = 0; i < 4; ++i) Train(memory.get(), ids);
  std::vector<float> expected(ids.size() * memory->width()), got(expected.size());
  ASSERT_OK(memory->Lookup(ids, expected));
  ASSERT_OK(table->Lookup(ids, got));
  EXPECT_EQ(got, expected);
}

}  // namespace
}  // namespace starling
