// A snapshot is one instant, whatever runs beside it, and incremental ones add
// up to it. Run under ThreadSanitizer too.
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "base/random.h"
#include "base/sync_point.h"
#include "base/thread_pool.h"
#include "embedding_store/embedding_table.h"
#include "embedding_store/row_file.h"
#include "embedding_store/table_test_util.h"

namespace starling {
namespace {

using Rows = std::map<uint64_t, std::pair<RowMeta, std::vector<float>>>;

bool KeepAll(uint64_t) { return true; }

Rows RowsOf(const EmbeddingTable& table) {
  Rows rows;
  absl::Status status =
      table.ForEach([&](uint64_t id, const RowMeta& meta, std::span<const float> floats) {
        rows[id] = {meta, {floats.begin(), floats.end()}};
      });
  EXPECT_TRUE(status.ok()) << status;
  return rows;
}

class TableSnapshotTest : public testing::TestWithParam<TableOptions::Tier> {
 protected:
  TableSpec Spec() const {
    TableSpec spec = MakeSpec("sgd");
    *spec.mutable_segments(0)->mutable_optimizer() = OptimizerNamed("sgd");
    spec.mutable_options()->set_tier(GetParam());
    if (GetParam() == TableOptions::ROCKSDB) spec.mutable_options()->set_memory(kTinyMemory);
    return spec;
  }
  std::unique_ptr<EmbeddingTable> Open(const TableSpec& spec, ThreadPool* pool = nullptr) {
    auto table = EmbeddingTable::Open(
        spec, {.scratch_dir = dir_.File(absl::StrCat("scratch", scratch_++)), .pool = pool});
    EXPECT_TRUE(table.ok()) << table.status();
    return *std::move(table);
  }
  std::unique_ptr<EmbeddingTable> Open() { return Open(Spec()); }
  // A new table with what the files hold, in their order.
  std::unique_ptr<EmbeddingTable> Restored(const std::vector<FileSetEntry>& files,
                                           ThreadPool* pool = nullptr) {
    auto table = Open(Spec(), pool);
    for (const FileSetEntry& file : files) {
      absl::Status status = table->Restore(dir_.File(file.name), [](uint64_t) { return true; });
      EXPECT_TRUE(status.ok()) << file.name << ": " << status;
    }
    return table;
  }
  void Create(EmbeddingTable* table, const std::vector<uint64_t>& ids, int64_t time = 0) {
    std::vector<float> weights(ids.size() * table->width());
    std::vector<int64_t> times(ids.size(), time);
    ASSERT_OK(table->LookupOrCreate(ids, {}, times, weights));
  }
  void Step(EmbeddingTable* table, const std::vector<uint64_t>& ids) {
    std::vector<float> grads(ids.size() * table->width(), 0.5f);
    ASSERT_OK(table->ApplyGradients(ids, grads, 1.0f));
  }
  TestDir dir_;
  int scratch_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Tiers, TableSnapshotTest,
                         testing::Values(TableOptions::MEMORY, TableOptions::ROCKSDB),
                         [](const auto& info) { return TableOptions::Tier_Name(info.param); });

// Every call adds 1 to every row, and a snapshot sees each call as a whole or
// not at all: so in it all rows have one value, and no row is missing.
TEST_P(TableSnapshotTest, IsOneInstantWhileWritersEvictorsAndDemotersRun) {
  constexpr int kIds = 3000;
  auto table = Open();
  const std::vector<uint64_t> ids = MakeIds(0, kIds), others = MakeIds(kIds, 500);
  std::vector<float> weights(ids.size() * 5), deltas(weights.size(), 1.0f);
  ASSERT_OK(table->LookupOrCreate(ids, {}, {}, weights));
  for (float& w : weights) w = -w;  // All weights to 0: sums of ones are exact.
  ASSERT_OK(table->ApplyDeltas(ids, weights));
  std::atomic<bool> done{false};
  std::atomic<int> failures{0};
  auto check = [&failures](const absl::Status& status) { failures += !status.ok(); };
  std::thread adds([&] {
    while (!done) check(table->ApplyDeltas(ids, deltas));
  });
  std::thread churns([&] {  // Rows that come and go take slots, and push others out of memory.
    std::vector<float> w(others.size() * 5);
    while (!done) {
      check(table->LookupOrCreate(others, {}, {}, w));
      check(table->Erase(others));
    }
  });
  float last = -1;
  for (int round = 0; round < 6; ++round) {
    auto files = table->Snapshot(dir_.File("t.rows"));
    ASSERT_OK(files.status());
    auto copy = Restored(*files);
    std::set<float> values;
    int found = 0;
    for (const auto& [id, row] : RowsOf(*copy)) {
      if (!std::binary_search(ids.begin(), ids.end(), id, IdBefore)) continue;
      values.insert(row.second.begin(), row.second.begin() + 5);
      ++found;
    }
    EXPECT_EQ(found, kIds) << "round " << round;
    ASSERT_EQ(values.size(), 1u) << "round " << round << ": from " << *values.begin() << " to "
                                 << *values.rbegin();
    EXPECT_GE(*values.begin(), last);
    last = *values.begin();
  }
  done = true;
  adds.join();
  churns.join();
  EXPECT_EQ(failures, 0);
  EXPECT_GT(last, 0);
}

TEST_P(TableSnapshotTest, RowsChangedWhileItIsWrittenAreCopiedAsideFirst) {
  auto table = Open();
  const std::vector<uint64_t> ids = MakeIds(0, 2000);
  Create(table.get(), ids);
  const Rows before = RowsOf(*table);
  std::atomic<bool> held{true};
  SetSyncPointHandler([&](absl::string_view name) {
    while (name == "store.snapshot.start" && held) absl::SleepFor(absl::Milliseconds(1));
  });
  auto snapshot = table->StartSnapshot(dir_.File("t.rows"), {});
  ASSERT_OK(snapshot.status());
  Step(table.get(), ids);
  ASSERT_OK(table->Erase(std::span(ids).first(500)));
  Create(table.get(), MakeIds(5000, 300));
  held = false;
  auto files = (*snapshot)->Wait();
  SetSyncPointHandler(nullptr);
  ASSERT_OK(files.status());
  EXPECT_EQ(RowsOf(*Restored(*files)), before);
  EXPECT_NE(RowsOf(*table), before);
  EXPECT_GT(table->stats().snapshot_aside_bytes, 0);
}

TEST_P(TableSnapshotTest, IncrementalOnesAddUpToTheTable) {
  const uint64_t seed = 77;
  auto table = Open();
  std::vector<FileSetEntry> chain;
  uint32_t since = 0;
  for (int round = 0; round < 6; ++round) {
    for (int step = 0; step < 5; ++step) {
      const int begin = static_cast<int>(RandomBelow(seed, round * 10 + step, 2500));
      Create(table.get(), MakeIds(begin, 400), 100 + round);
      Step(table.get(), MakeIds(begin + 100, 300));
      ASSERT_OK(table->Erase(MakeIds(begin + 350, 40)));
    }
    auto snapshot =
        table->StartSnapshot(dir_.File(absl::StrCat("t", round, ".rows")), {.since = since});
    ASSERT_OK(snapshot.status());
    auto files = (*snapshot)->Wait();
    ASSERT_OK(files.status());
    chain.insert(chain.end(), files->begin(), files->end());
    since = (*snapshot)->epoch();
    EXPECT_EQ(RowsOf(*Restored(chain)), RowsOf(*table)) << "round " << round;
  }
  // Threads that share the work see each id's going and coming in order, and set
  // rows in the places that one would have: later sweeps go by them.
  ThreadPool pool(3);
  auto alone = Restored(chain), threaded = Restored(chain, &pool);
  EXPECT_EQ(RowsOf(*threaded), RowsOf(*table));
  if (GetParam() == TableOptions::ROCKSDB)
    return;  // Its keeper's timing decides what leaves memory.
  auto one = alone->Snapshot(dir_.File("one.rows")),
       many = threaded->Snapshot(dir_.File("many.rows"));
  ASSERT_OK(one.status());
  ASSERT_OK(many.status());
  EXPECT_EQ(one->back().crc32c, many->back().crc32c);
}

// Of what a file says about an id the last word holds, though the row has left memory in between,
// within one block too: rows are set a block at a time.
TEST_P(TableSnapshotTest, AnIdThatComesAgainInAFileEndsAsTheLastTime) {
  RowFileHeader header{Spec(), 5, 0};
  header.sorted = false;
  auto writer = RowFileWriter::Create(dir_.File("t.rows"), header);
  ASSERT_OK(writer.status());
  const std::vector<uint64_t> ids = MakeIds(0, 6000);
  Rows expected;
  auto put = [&](uint64_t id, float value) {
    const std::vector<float> floats(5, value);
    expected[id] = {{.event_time = 5, .frequency = 2, .epoch = 1}, floats};
    ASSERT_OK((*writer)->Append({.id = id, .meta = expected[id].first, .floats = floats}));
  };
  for (int round = 0; round < 3; ++round) {
    for (size_t i = round; i < ids.size(); ++i) {
      if (i % 7 == static_cast<size_t>(round)) {
        ASSERT_OK((*writer)->Append({.id = ids[i], .tombstone = true}));
        expected.erase(ids[i]);
      } else if (i % 3 > 0) {
        put(ids[i], static_cast<float>(i + round));
        if (i % 5 == 0) put(ids[i - i % 50], static_cast<float>(i));
      }
    }
  }
  ASSERT_OK((*writer)->Finish().status());
  ThreadPool pool(3);
  for (ThreadPool* threads : {static_cast<ThreadPool*>(nullptr), &pool}) {
    auto table = Open(Spec(), threads);
    ASSERT_EQ(table->layout().floats(), 5);
    ASSERT_OK(table->Restore(dir_.File("t.rows"), KeepAll));
    EXPECT_EQ(RowsOf(*table), expected);
    EXPECT_EQ(table->rows(), std::ssize(expected));  // In memory and in the cold tier, none twice.
    EXPECT_LE(table->stats().bytes_memory, Spec().options().memory());
  }
}

TEST_P(TableSnapshotTest, DamageIsNoticedByWhateverNumberOfThreads) {
  auto table = Open();
  Create(table.get(), MakeIds(0, 3000));
  ASSERT_OK(SnapshotTo(table.get(), dir_.File("t.rows")));
  const std::string good = *ReadFile(dir_.File("t.rows"));
  for (int n = 0; n < 40; ++n) {
    std::string bad = good;
    bad[RandomBelow(5, n, bad.size())] ^= 16;
    ASSERT_OK(WriteFileAtomically(dir_.File("t.rows"), bad));
    for (int threads : {1, 3, 8}) {
      ThreadPool pool(threads);
      const absl::Status status = Open(Spec(), &pool)->Restore(dir_.File("t.rows"), KeepAll);
      EXPECT_TRUE(absl::IsDataLoss(status)) << n << ", " << threads << " threads: " << status;
    }
  }
}

// A file of another instant, whole in itself, in the place of the one that a manifest names.
TEST_P(TableSnapshotTest, AFileOfAnotherSnapshotIsNoticedByWhateverNumberOfThreads) {
  auto table = Open();
  const std::vector<uint64_t> ids = MakeIds(0, 3000);
  Create(table.get(), ids);
  auto before = table->Snapshot(dir_.File("t.rows"));
  ASSERT_OK(before.status());
  ASSERT_OK(table->ApplyDeltas(ids, std::vector<float>(ids.size() * table->width(), 1.0f)));
  auto after = table->Snapshot(dir_.File("t.rows"));
  ASSERT_OK(after.status());
  for (int threads : {1, 3, 8}) {
    ThreadPool pool(threads);
    for (size_t f = 0; f < after->size(); ++f) {
      auto restore = [&](uint32_t crc32c) {
        return Open(Spec(), &pool)
            ->Restore(dir_.File((*after)[f].name), KeepAll, EmbeddingTable::Take::kAll, crc32c);
      };
      EXPECT_TRUE(restore((*after)[f].crc32c).ok()) << threads << " threads";
      EXPECT_TRUE(absl::IsDataLoss(restore((*before)[f].crc32c))) << threads << " threads";
    }
  }
}

// Sights that made an id a row are spent. Taken from the earlier snapshot, they
// would admit the id too early once the row went.
TEST_P(TableSnapshotTest, OfAnEarlierLinkOnlyTheRowsAreTaken) {
  TableSpec spec = Spec();
  spec.mutable_options()->mutable_admit()->set_exact_count(3);
  auto table = Open(spec);
  const std::vector<uint64_t> ids = MakeIds(0, 5);
  Create(table.get(), ids);
  Create(table.get(), ids);
  auto full = table->StartSnapshot(dir_.File("full.rows"), {});
  ASSERT_OK(full.status());
  auto base = (*full)->Wait();
  ASSERT_OK(base.status());
  Create(table.get(), ids);
  ASSERT_EQ(table->rows(), 5);
  ASSERT_OK(table->Erase(ids));
  auto part = table->StartSnapshot(dir_.File("part.rows"), {.since = (*full)->epoch()});
  ASSERT_OK(part.status());
  auto files = (*part)->Wait();
  ASSERT_OK(files.status());

  auto restored = Open(spec);
  auto all = [](uint64_t) { return true; };
  for (const FileSetEntry& file : *base) {
    ASSERT_OK(restored->Restore(dir_.File(file.name), all, EmbeddingTable::Take::kRows));
  }
  for (const FileSetEntry& file : *files) ASSERT_OK(restored->Restore(dir_.File(file.name), all));
  for (EmbeddingTable* t : {table.get(), restored.get()}) {
    Create(t, ids);
    EXPECT_EQ(t->rows(), 0);
    Create(t, ids);
    Create(t, ids);
    EXPECT_EQ(t->rows(), 5);
  }
}

TEST_P(TableSnapshotTest, AnIncrementalOneHoldsOnlyWhatChanged) {
  auto table = Open();
  const std::vector<uint64_t> ids = MakeIds(0, 3000);
  Create(table.get(), ids);
  auto full = table->StartSnapshot(dir_.File("full.rows"), {});
  ASSERT_OK(full.status());
  ASSERT_OK((*full)->Wait().status());
  Step(table.get(), {ids.begin(), ids.begin() + 10});
  ASSERT_OK(table->Erase(std::span(ids).subspan(20, 5)));
  auto part = table->StartSnapshot(dir_.File("part.rows"), {.since = (*full)->epoch()});
  ASSERT_OK(part.status());
  auto files = (*part)->Wait();
  ASSERT_OK(files.status());
  std::set<uint64_t> changed, gone;
  for (const FileSetEntry& file : *files) {
    EXPECT_EQ(file.crc32c, DescribeSetFile(dir_.File(""), file.name)->crc32c);
    EXPECT_EQ(file.bytes, DescribeSetFile(dir_.File(""), file.name)->bytes);
    auto reader = RowFileReader::Open(dir_.File(file.name));
    ASSERT_OK(reader.status());
    ASSERT_OK((*reader)->ReadAll(
        [&](const RowRecord& row) {
          (row.tombstone ? gone : changed).insert(row.id);
          return absl::OkStatus();
        },
        nullptr));
  }
  EXPECT_EQ(changed, std::set<uint64_t>(ids.begin(), ids.begin() + 10));
  EXPECT_EQ(gone, std::set<uint64_t>(ids.begin() + 20, ids.begin() + 25));
  // Acknowledged: the next one is complete only from here on.
  table->DropTombstones((*part)->epoch());
  absl::Status early =
      table->StartSnapshot(dir_.File("early.rows"), {.since = (*full)->epoch()}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(early)) << early;
  EXPECT_NE(early.message().find("take a full snapshot"), absl::string_view::npos) << early;
}

TEST_P(TableSnapshotTest, OnlyOneAtATimeAndOneGivenUpEndsSoon) {
  auto table = Open();
  Create(table.get(), MakeIds(0, 2000));
  auto slow = table->StartSnapshot(dir_.File("slow.rows"), {.bytes_per_second_max = 1});
  ASSERT_OK(slow.status());
  absl::Status second = table->StartSnapshot(dir_.File("second.rows"), {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(second)) << second;
  slow->reset();
  ASSERT_OK(SnapshotTo(table.get(), dir_.File("third.rows")));
  EXPECT_EQ(RowsOf(*table).size(), 2000u);
}

}  // namespace
}  // namespace starling
