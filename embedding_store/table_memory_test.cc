// The memory of a table: its budget is kept and used, and may be taken at the start.
#include <memory>
#include <vector>

#include "embedding_store/embedding_table.h"
#include "embedding_store/table_test_util.h"

namespace starling {
namespace {

TEST(TableMemoryTest, MemoryTierFullIsResourceExhaustedAndSaysWhatToRaise) {
  TableSpec spec = MakeSpec("adagrad");
  spec.mutable_options()->set_memory(100'000);
  auto table = OpenTable(spec);
  std::vector<uint64_t> ids = MakeIds(0, 5000);
  std::vector<float> weights(ids.size() * 5);
  absl::Status status = table->LookupOrCreate(ids, {}, {}, weights);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(status.message(),
            "table users: its 100000 bytes of memory are full; raise the table's memory, or set "
            "tier: rocksdb");
  EXPECT_LE(table->stats().bytes_memory, 100'000);
  EXPECT_GT(table->rows(), 400);
}

TEST(TableMemoryTest, BudgetIsKeptWhileFiftyTimesAsMuchIsInserted) {
  TestDir dir;
  TableSpec spec = MakeSpec("adagrad", 16);
  const int64_t budget = 256 << 10;
  spec.mutable_options()->set_tier(TableOptions::ROCKSDB);
  spec.mutable_options()->set_memory(budget);
  spec.mutable_options()->mutable_admit()->set_count(1);
  auto table = OpenTable(spec, dir.File("scratch"));
  int rows = 0;
  for (; rows * 160 < 50 * budget; rows += 4000) {
    CreateRows(table.get(), MakeIds(rows, 4000));
    TableStats stats = table->stats();
    ASSERT_LE(stats.bytes_memory, budget);
    ASSERT_EQ(stats.rows_memory + stats.rows_cold, rows + 4000);
  }
  EXPECT_GT(table->stats().bytes_memory, budget / 2);
  EXPECT_EQ(table->rows(), rows);
  EXPECT_EQ(table->stats().created, rows);
}

TEST(TableMemoryTest, MemoryForExpectedRowsIsTakenAtTheStartAndChangesNothingElse) {
  constexpr int64_t kRows = 100'000;
  TableSpec spec = MakeSpec("adagrad", 16);
  spec.mutable_options()->set_memory(64 << 20);
  auto plain = OpenTable(spec);
  spec.mutable_options()->set_rows_expected(kRows);
  auto expecting = OpenTable(spec);
  const int64_t rows_bytes = kRows * (20 + 2 * 16 * 4);
  const int64_t taken = expecting->stats().bytes_memory;
  EXPECT_GT(taken, rows_bytes);
  EXPECT_LT(plain->stats().bytes_memory, rows_bytes / 2);
  const std::vector<uint64_t> ids = MakeIds(0, kRows);
  EXPECT_EQ(CreateRows(expecting.get(), ids), CreateRows(plain.get(), ids));
  EXPECT_LT(expecting->stats().bytes_memory, taken + taken / 20);
}

TEST(TableMemoryTest, MoreExpectedRowsThanTheBudgetHoldsTakeTheBudget) {
  TestDir dir;
  TableSpec spec = MakeSpec("adagrad", 16);
  const int64_t budget = 1 << 20;
  spec.mutable_options()->set_tier(TableOptions::ROCKSDB);
  spec.mutable_options()->set_memory(budget);
  spec.mutable_options()->set_rows_expected(1'000'000'000);
  auto table = OpenTable(spec, dir.File("scratch"));
  EXPECT_LE(table->stats().bytes_memory, budget);
  const std::vector<uint64_t> ids = MakeIds(0, 20'000);
  const std::vector<float> made = CreateRows(table.get(), ids);
  EXPECT_EQ(LookRows(*table, ids), made);
  EXPECT_LE(table->stats().bytes_memory, budget);
  EXPECT_GT(table->stats().rows_memory, 2'000);
}

TEST(TableMemoryTest, ScratchIsMadeAtTheFirstDemotionAndRemovedAtTheEnd) {
  TestDir dir;
  const std::string scratch = dir.File("scratch");
  TableSpec spec = MakeSpec("adagrad");
  spec.mutable_options()->set_tier(TableOptions::ROCKSDB);
  spec.mutable_options()->set_memory(kTinyMemory);
  ASSERT_OK(MakeDirs(scratch));
  ASSERT_OK(WriteFileAtomically(JoinPath(scratch, "CURRENT"), "left by a killed process"));
  auto table = OpenTable(spec, scratch);
  CreateRows(table.get(), MakeIds(0, 50));
  EXPECT_EQ(table->stats().demoted, 0);
  CreateRows(table.get(), MakeIds(0, 3000));
  EXPECT_GT(table->stats().demoted, 0);
  EXPECT_TRUE(PathExists(scratch));
  table.reset();
  EXPECT_FALSE(PathExists(scratch));
}

TEST(TableMemoryTest, BudgetTooSmallToWorkWithIsRefused) {
  TableSpec spec = MakeSpec("adagrad");
  spec.mutable_options()->set_memory(1000);
  absl::Status status = EmbeddingTable::Open(spec, {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("raise it to at least"), absl::string_view::npos);
}

}  // namespace
}  // namespace starling
