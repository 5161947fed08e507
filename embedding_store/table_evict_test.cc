// Rows that go by themselves: TTL, cap and norm, in memory and in the cold
// tier, what snapshots say of them, and admission across restores. Cold rows go
// in the background: tests wait for the number, and bound only how long.
#include <memory>
#include <set>
#include <vector>

#include "absl/time/clock.h"
#include "embedding_store/embedding_table.h"
#include "embedding_store/row_slab.h"
#include "embedding_store/table_test_util.h"

namespace starling {
namespace {

class TableEvictTest : public testing::TestWithParam<TableOptions::Tier> {
 protected:
  bool cold() const { return GetParam() == TableOptions::ROCKSDB; }
  TableSpec Spec(const std::string& optimizer = "adagrad") const {
    TableSpec spec = MakeSpec(optimizer);
    spec.mutable_options()->set_tier(GetParam());
    spec.mutable_options()->set_memory(cold() ? kTinyMemory : 16 << 20);
    return spec;
  }
  std::unique_ptr<EmbeddingTable> Open(const TableSpec& spec) {
    auto table =
        EmbeddingTable::Open(spec, {.scratch_dir = dir_.File(absl::StrCat("scratch", scratch_++))});
    EXPECT_TRUE(table.ok()) << table.status();
    return *std::move(table);
  }
  static std::vector<float> Create(EmbeddingTable* table, const std::vector<uint64_t>& ids,
                                   int64_t time = 0, uint32_t count = 1) {
    std::vector<float> weights(ids.size() * table->width(), -1.0f);
    absl::Status status = table->LookupOrCreate(ids, std::vector<uint32_t>(ids.size(), count),
                                                std::vector<int64_t>(ids.size(), time), weights);
    EXPECT_TRUE(status.ok()) << status;
    return weights;
  }
  static void Step(EmbeddingTable* table, const std::vector<uint64_t>& ids) {
    ASSERT_OK(
        table->ApplyGradients(ids, std::vector<float>(ids.size() * table->width(), 0.1f), 1.0f));
  }
  // Steps that name no row, so that memory is swept, and pauses for the keeper,
  // until done(); false if that takes longer than any machine should need.
  static bool SweepUntil(EmbeddingTable* table, const std::function<bool()>& done) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (!done()) {
      if (absl::Now() > deadline) return false;
      EXPECT_TRUE(table->ApplyGradients({}, {}, 1.0f).ok());
      absl::SleepFor(absl::Milliseconds(1));
    }
    return true;
  }
  static std::set<uint64_t> IdsOf(const EmbeddingTable& table) {
    std::set<uint64_t> ids;
    EXPECT_TRUE(
        table.ForEach([&](uint64_t id, const RowMeta&, std::span<const float>) { ids.insert(id); })
            .ok());
    return ids;
  }
  static std::set<uint64_t> SetOf(const std::vector<uint64_t>& ids) {
    return {ids.begin(), ids.end()};
  }
  TestDir dir_;
  int scratch_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Tiers, TableEvictTest,
                         testing::Values(TableOptions::MEMORY, TableOptions::ROCKSDB),
                         [](const auto& info) { return TableOptions::Tier_Name(info.param); });

TEST_P(TableEvictTest, TtlTakesExactlyTheExpiredRowsOfBothTiers) {
  TableSpec spec = Spec();
  spec.mutable_options()->mutable_evict()->set_ttl(100);
  auto table = Open(spec);
  const std::vector<uint64_t> old = MakeIds(0, 3000), young = MakeIds(5000, 2000),
                              ageless = MakeIds(8000, 500);
  Create(table.get(), ageless);
  Create(table.get(), old, 1000);
  Create(table.get(), young, 1001);
  EXPECT_EQ(table->stats().rows_cold > 1000, cold());
  Create(table.get(), MakeIds(5000, 10), 1101);
  ASSERT_TRUE(SweepUntil(table.get(), [&] { return table->stats().evicted >= 3000; }));
  // Another round or two finds no more.
  for (int i = 0; i < 200; ++i) ASSERT_OK(table->ApplyGradients({}, {}, 1.0f));
  EXPECT_EQ(table->stats().evicted, 3000);
  EXPECT_EQ(table->stats().expired, 0);
  std::set<uint64_t> left = SetOf(young);
  left.insert(ageless.begin(), ageless.end());
  EXPECT_EQ(IdsOf(*table), left);
  EXPECT_EQ(table->rows(), 2500);
}

// The largest id has no successor for the walk over the cold tier to go on
// from. Here it is the last of all, and the walk comes to it again and again.
TEST_P(TableEvictTest, TheLargestIdDoesNotStopTheSweep) {
  constexpr uint64_t kLargest = ~uint64_t{0};
  TableSpec spec = Spec();
  spec.mutable_options()->mutable_evict()->set_ttl(100);
  auto table = Open(spec);
  Create(table.get(), {kLargest}, 1050);
  std::vector<uint64_t> old = MakeIds(0, 5000);
  std::erase_if(old, [](uint64_t id) { return !IdBefore(id, kLargest); });
  ASSERT_GT(old.size(), 1500u);
  const auto count = static_cast<int64_t>(old.size());
  for (int64_t round = 1; round <= 3; ++round) {
    Create(table.get(), old, 1000);
    Create(table.get(), {old[0]}, 1101);  // The clock; old[0] is created, anew, and stays.
    ASSERT_TRUE(SweepUntil(table.get(), [&] { return table->rows() == 2; }))
        << "round " << round << ": " << table->rows() << " of " << count;
  }
}

// Calls without event times, or with unknown ones, do not stop the clock.
TEST_P(TableEvictTest, UnknownEventTimesLeaveTheClockAlone) {
  TableSpec spec = Spec();
  spec.mutable_options()->mutable_evict()->set_ttl(100);
  auto table = Open(spec);
  Create(table.get(), MakeIds(0, 100), 1000);
  Create(table.get(), MakeIds(200, 1), 1101);
  Create(table.get(), MakeIds(300, 1), 0);
  ASSERT_TRUE(SweepUntil(table.get(), [&] { return table->stats().evicted >= 100; }));
  EXPECT_EQ(table->rows(), 2);
}

// A second pass begins at old event times; what it makes must live through it.
TEST_P(TableEvictTest, SecondPassOverOldEventTimesKeepsWhatItRecreates) {
  TableSpec spec = Spec();
  spec.mutable_options()->mutable_evict()->set_ttl(100);
  auto table = Open(spec);
  const std::vector<uint64_t> first = MakeIds(0, 1500), last = MakeIds(5000, 1500);
  for (int pass = 0; pass < 2; ++pass) {
    const int64_t evicted = table->stats().evicted;
    Create(table.get(), first, 1000);
    for (int i = 0; i < 100; ++i) ASSERT_OK(table->ApplyGradients({}, {}, 1.0f));
    EXPECT_EQ(table->stats().evicted, evicted) << "pass " << pass;
    EXPECT_EQ(table->rows(), pass == 0 ? 1500 : 3000);
    Create(table.get(), last, 2000);
    ASSERT_TRUE(SweepUntil(table.get(), [&] { return table->stats().evicted == evicted + 1500; }));
    EXPECT_EQ(IdsOf(*table), SetOf(last));
  }
}

TEST_P(TableEvictTest, CapIsKeptAndRowsSeenOftenSurvive) {
  constexpr int kCap = 1500, kHot = 300, kNew = 100;
  TableSpec spec = Spec();
  spec.mutable_options()->mutable_evict()->set_rows(kCap);
  auto table = Open(spec);
  const std::vector<uint64_t> hot = MakeIds(0, kHot);
  for (int i = 0; i < 100; ++i) {
    Create(table.get(), hot);
    const std::vector<uint64_t> ids = MakeIds(1000 + kNew * i, kNew);
    Create(table.get(), ids);
    Step(table.get(), ids);
    if (!cold() && i > 2 * kCap / kNew) {
      ASSERT_LE(table->rows(), kCap + kNew) << "call " << i;
    }
  }
  ASSERT_TRUE(SweepUntil(table.get(), [&] { return table->rows() <= kCap; })) << table->rows();
  std::set<uint64_t> left = IdsOf(*table);
  for (uint64_t id : hot) ASSERT_TRUE(left.contains(id));
  EXPECT_GT(left.size(), kCap * 9u / 10);
  const TableStats stats = table->stats();
  EXPECT_EQ(stats.evicted, kHot + 100 * kNew - static_cast<int64_t>(left.size()));
}

// The bar below which rows go must find its way up to any frequency, stay
// there while there is a surplus, and come down again.
TEST_P(TableEvictTest, CapIsReachedWhateverTheFrequencies) {
  TableSpec spec = Spec();
  spec.mutable_options()->mutable_evict()->set_rows(600);
  auto table = Open(spec);
  for (uint32_t count : {1u, 1000u, RowHeader::kFrequencyMax}) {
    Create(table.get(), MakeIds(0, 2500), 0, count);
    // Memory is gone over many times before the cold tier is once.
    for (int i = 0; i < 50; ++i) Step(table.get(), MakeIds(50'000, 1000));
    ASSERT_TRUE(SweepUntil(table.get(), [&] { return table->rows() <= 600; }))
        << table->rows() << " rows of " << count;
    // Many rounds in which nothing is left to take.
    for (int i = 0; i < 300; ++i) ASSERT_OK(table->ApplyGradients({}, {}, 1.0f));
    EXPECT_GT(table->rows(), 500);
  }
}

TEST_P(TableEvictTest, RowsOfSmallNormGo) {
  TableSpec spec = Spec("sgd");
  spec.mutable_options()->mutable_evict()->set_norm(0.5);
  spec.mutable_segments(1)->set_init(0);
  auto table = Open(spec);
  const std::vector<uint64_t> small = MakeIds(0, 1500), large = MakeIds(5000, 1500);
  // A few at a time: new rows are zero, and must not get cold before the delta.
  auto set = [&](const std::vector<uint64_t>& ids, float w) {
    for (size_t begin = 0; begin < ids.size(); begin += 50) {
      const std::vector<uint64_t> some(ids.begin() + begin, ids.begin() + begin + 50);
      Create(table.get(), some);
      std::vector<float> deltas(some.size() * 5, 0.0f);
      for (size_t i = 1; i < deltas.size(); i += 5) deltas[i] = w;
      ASSERT_OK(table->ApplyDeltas(some, deltas));
    }
  };
  set(large, -0.51f);
  set(small, 0.49f);
  ASSERT_TRUE(SweepUntil(table.get(), [&] { return table->stats().evicted >= 1500; }));
  for (int i = 0; i < 200; ++i) ASSERT_OK(table->ApplyGradients({}, {}, 1.0f));
  EXPECT_EQ(IdsOf(*table), SetOf(large));
}

TEST_P(TableEvictTest, EvictedIdsAreTombstonesOfTheNextIncrementalSnapshot) {
  TableSpec spec = Spec();
  spec.mutable_options()->mutable_evict()->set_ttl(100);
  auto table = Open(spec);
  const std::vector<uint64_t> old = MakeIds(0, 2000), young = MakeIds(5000, 1000);
  Create(table.get(), old, 1000);
  Create(table.get(), young, 1090);
  std::vector<FileSetEntry> files;
  auto snapshot = [&](uint32_t since) {
    auto task = table->StartSnapshot(dir_.File(absl::StrCat("since", since)), {.since = since});
    EXPECT_TRUE(task.ok()) << task.status();
    auto names = (*task)->Wait();
    EXPECT_TRUE(names.ok()) << names.status();
    files.insert(files.end(), names->begin(), names->end());
    return (*task)->epoch();
  };
  const uint32_t epoch = snapshot(0);
  Create(table.get(), MakeIds(9000, 1), 1101);
  ASSERT_TRUE(SweepUntil(table.get(), [&] { return table->stats().evicted >= 2000; }));
  Create(table.get(), {old[0]}, 1101);  // Gone and come again: after its tombstone.
  snapshot(epoch);
  auto restored = Open(spec);
  for (const FileSetEntry& file : files) {
    ASSERT_OK(restored->Restore(dir_.File(file.name), [](uint64_t) { return true; }));
  }
  EXPECT_EQ(IdsOf(*restored), IdsOf(*table));
  EXPECT_EQ(restored->rows(), 1002);
  // What went before the files were written is not known to the restored table.
  EXPECT_TRUE(absl::IsFailedPrecondition(
      restored->StartSnapshot(dir_.File("x"), {.since = epoch}).status()));
}

// Every id that was ever given had a row, was refused, or got a row; and every
// row that was made is here or went.
TEST_P(TableEvictTest, CountersAccountForEveryId) {
  TableSpec spec = Spec();
  spec.mutable_options()->mutable_admit()->set_exact_count(2);
  spec.mutable_options()->mutable_evict()->set_ttl(100);
  spec.mutable_options()->mutable_evict()->set_rows(2000);
  auto table = Open(spec);
  for (int i = 0; i < 40; ++i) {
    const std::vector<uint64_t> ids = MakeIds(150 * i, 200);  // 50 of them for the second time.
    Create(table.get(), ids, 1000 + 10 * i, 1 + i % 2);
    ASSERT_OK(table->ApplyGradients({}, {}, 1.0f));
    ASSERT_OK(table->Erase(std::span(ids).first(5)));
    const TableStats s = table->stats();
    ASSERT_EQ(s.hits_memory + s.hits_cold + s.misses, 200 * (i + 1));
    ASSERT_EQ(s.misses, s.created - s.expired + s.refused);
  }
  ASSERT_TRUE(SweepUntil(table.get(), [&] { return table->rows() <= 2000; }));
  absl::Status status = table->Erase(MakeIds(0, 10'000));
  ASSERT_OK(status);
  EXPECT_EQ(table->rows(), 0);
  const TableStats s = table->stats();
  EXPECT_EQ(s.created - s.expired, s.evicted + s.erased);
  EXPECT_GT(s.refused, 0);
  EXPECT_GT(s.evicted, 0);
  EXPECT_GT(s.erased, 0);
}

// Rows that the sweep took take no part in dense steps, and one that comes
// again has the table's step count.
TEST(TableEvictDenseTest, DenseUpdateGoesOnAfterEviction) {
  TableSpec spec = MakeSpec("adam");
  spec.mutable_options()->set_update(TableOptions::DENSE);
  spec.mutable_options()->mutable_evict()->set_ttl(100);
  auto opened = EmbeddingTable::Open(spec, {});
  ASSERT_OK(opened.status());
  EmbeddingTable& table = **opened;
  const std::vector<uint64_t> ids = MakeIds(0, 40);
  auto create = [&](std::span<const uint64_t> some, int64_t time) {
    std::vector<float> weights(some.size() * 5);
    ASSERT_OK(table.LookupOrCreate(some, {}, std::vector<int64_t>(some.size(), time), weights));
  };
  create(ids, 1000);
  create(std::span(ids).first(10), 1090);
  int steps = 0;
  auto step = [&] {
    ASSERT_OK(table.ApplyGradients(std::span(ids).first(5), std::vector<float>(25, 0.5f), 1.0f));
    ++steps;
  };
  step();
  EXPECT_EQ(table.rows(), 40);
  create(std::span(ids).first(1), 1101);
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(table.rows(), 10);
  EXPECT_EQ(table.stats().evicted, 30);
  create(std::span(ids).last(3), 1101);
  step();
  int rows = 0;
  ASSERT_OK(table.ForEach([&](uint64_t, const RowMeta&, std::span<const float> floats) {
    EXPECT_EQ(floats.back(), static_cast<float>(steps));
    ++rows;
  }));
  EXPECT_EQ(rows, 13);
}

// ---- Admission across restores ----

// The number of stripes follows from the budget. Each half of the sights is
// counted under another number of them.
TEST(TableAdmissionTest, StateGoesToTheStripesOfAnotherBudget) {
  TestDir dir;
  for (bool exact : {false, true}) {
    for (auto [from, to] : {std::pair<int64_t, int64_t>{64 << 20, 1 << 20}, {1 << 20, 64 << 20}}) {
      TableSpec spec = MakeSpec("adagrad");
      auto* admit = spec.mutable_options()->mutable_admit();
      exact ? admit->set_exact_count(4) : admit->set_count(4);
      spec.mutable_options()->set_memory(from);
      auto table = *EmbeddingTable::Open(spec, {});
      spec.mutable_options()->set_memory(to);
      auto restored = *EmbeddingTable::Open(spec, {});
      const std::vector<uint64_t> ids = MakeIds(0, 200), others = MakeIds(5000, 200);
      std::vector<float> weights(ids.size() * 5);
      for (int i = 0; i < 3; ++i) ASSERT_OK(table->LookupOrCreate(ids, {}, {}, weights));
      ASSERT_EQ(table->rows(), 0);
      ASSERT_OK(SnapshotTo(table.get(), dir.File("t.rows")));
      // As if two shards had been joined, and one of them read again.
      for (int i = 0; i < 2; ++i) ASSERT_OK(RestoreFrom(restored.get(), dir.File("t.rows")));
      ASSERT_OK(restored->LookupOrCreate(others, {}, {}, weights));
      // A folded Bloom filter may let a few in early; exact counters none.
      EXPECT_LE(restored->rows(), exact ? 0 : 20);
      ASSERT_OK(restored->LookupOrCreate(ids, {}, {}, weights));
      EXPECT_GE(restored->rows(), 200);
      EXPECT_LE(restored->rows(), exact ? 200 : 220);
    }
  }
}

// A shard takes only the exact counters of ids that it owns.
TEST(TableAdmissionTest, ExactCountersFollowTheFilterOfARestore) {
  TestDir dir;
  TableSpec spec = MakeSpec("adagrad");
  spec.mutable_options()->mutable_admit()->set_exact_count(2);
  spec.mutable_options()->set_memory(4 << 20);
  auto table = *EmbeddingTable::Open(spec, {});
  const std::vector<uint64_t> ids = MakeIds(0, 300);
  std::vector<float> weights(ids.size() * 5);
  ASSERT_OK(table->LookupOrCreate(ids, {}, {}, weights));
  ASSERT_OK(SnapshotTo(table.get(), dir.File("t.rows")));
  int64_t rows = 0;
  for (uint64_t shard = 0; shard < 2; ++shard) {
    auto part = *EmbeddingTable::Open(spec, {});
    ASSERT_OK(RestoreFrom(part.get(), dir.File("t.rows"),
                          [&](uint64_t id) { return BucketOf(id) % 2 == shard; }));
    ASSERT_OK(part->LookupOrCreate(ids, {}, {}, weights));
    EXPECT_GT(part->rows(), 100);
    rows += part->rows();
  }
  EXPECT_EQ(rows, 300);
}

// A full table refuses no id that needs no room.
TEST(TableAdmissionTest, RefusedIdsNeedNoRoom) {
  TableSpec spec = MakeSpec("adagrad");
  spec.mutable_options()->set_memory(100'000);
  spec.mutable_options()->mutable_admit()->set_exact_count(2);
  auto table = *EmbeddingTable::Open(spec, {});
  absl::Status status;
  std::vector<float> weights(5);
  for (uint64_t id = 0; status.ok() && id < 100'000; ++id) {
    status = table->LookupOrCreate({&id, 1}, std::vector<uint32_t>{2}, {}, weights);
  }
  ASSERT_TRUE(absl::IsResourceExhausted(status)) << status;
  const uint64_t once = 1 << 30;
  ASSERT_OK(table->LookupOrCreate({&once, 1}, {}, {}, weights));
  EXPECT_EQ(weights, std::vector<float>(5, 0.0f));
  for (int i = 0; i < 2; ++i) {  // The second sight needs a row, and stays counted.
    EXPECT_TRUE(absl::IsResourceExhausted(table->LookupOrCreate({&once, 1}, {}, {}, weights)));
  }
}

}  // namespace
}  // namespace starling
