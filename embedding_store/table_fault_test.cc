// Bad input and bad disks: a scratch directory that is in use, files of the
// cold tier that rot, and row files that do not fit.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <future>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "base/sync_point.h"
#include "embedding_store/embedding_table.h"
#include "embedding_store/table_test_util.h"

namespace starling {
namespace {

TableSpec ColdSpec(int dim = 4) {
  TableSpec spec = MakeSpec("adagrad", dim);
  spec.mutable_options()->set_tier(TableOptions::ROCKSDB);
  spec.mutable_options()->set_memory(kTinyMemory);
  return spec;
}

absl::Status Create(EmbeddingTable* table, const std::vector<uint64_t>& ids,
                    std::vector<float>* weights) {
  weights->assign(ids.size() * table->width(), -1.0f);
  return table->LookupOrCreate(ids, {}, {}, *weights);
}

// ---- A scratch directory in use ----

TEST(TableFaultTest, SecondTableOnAScratchDirectoryIsRefusedAndHarmsNothing) {
  TestDir dir;
  const std::string scratch = dir.File("scratch");
  const std::vector<uint64_t> ids = MakeIds(0, 3000);
  std::vector<float> made, weights, seen(ids.size() * 5);
  auto first = OpenTable(ColdSpec(), scratch);
  ASSERT_OK(Create(first.get(), ids, &made));
  ASSERT_GT(first->stats().rows_cold, 1000);
  {
    auto second = OpenTable(ColdSpec(), scratch);  // It has no need of the disk yet.
    absl::Status status = Create(second.get(), ids, &weights);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), scratch)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), absl::StrCat("process ", ::getpid())));
  }
  ASSERT_OK(first->Lookup(ids, seen));  // Also after the second one's end.
  EXPECT_EQ(seen, made);
  first.reset();
  EXPECT_FALSE(PathExists(scratch));
  EXPECT_FALSE(PathExists(scratch + ".lock"));
  ASSERT_OK(Create(OpenTable(ColdSpec(), scratch).get(), ids, &weights));
}

// A process that takes the lock and waits to be killed. It calls nothing but
// the kernel: the test's process has other threads.
class Owner {
 public:
  explicit Owner(const std::string& lock) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const int fd = ::open(lock.c_str(), O_RDWR | O_CREAT, 0644);
      if (::flock(fd, LOCK_EX) != 0 || ::write(ready[1], "x", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char byte;
    ::close(ready[1]);
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
  }
  ~Owner() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

TEST(TableFaultTest, ScratchDirectoryOfAnotherProcessIsFreeOnlyAfterItsDeath) {
  TestDir dir;
  const std::string scratch = dir.File("scratch");
  const std::vector<uint64_t> ids = MakeIds(0, 3000);
  std::vector<float> weights;
  auto table = OpenTable(ColdSpec(), scratch);
  ASSERT_OK(MakeDirs(scratch));
  ASSERT_OK(WriteFileAtomically(JoinPath(scratch, "000001.sst"), "the other one's rows"));
  {
    Owner owner(scratch + ".lock");
    absl::Status status = Create(table.get(), ids, &weights);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_TRUE(PathExists(JoinPath(scratch, "000001.sst")));
  }
  ASSERT_OK(Create(table.get(), ids, &weights));
  EXPECT_FALSE(PathExists(JoinPath(scratch, "000001.sst")));
}

// ---- Files of the cold tier that rot ----

// Waits until RocksDB has nothing left to compact: its files stay as they are.
void AwaitQuiet(const std::string& scratch) {
  std::vector<std::string> before;
  for (int same = 0, tries = 0; same < 10 && tries < 600; ++tries) {
    const std::vector<std::string> names = ListDir(scratch).value();
    same = names == before ? same + 1 : 0;
    before = names;
    absl::SleepFor(absl::Milliseconds(50));
  }
}

// Overwrites a piece of every block in the first half of two table files.
int Corrupt(const std::string& scratch) {
  int corrupted = 0;
  const std::vector<std::string> names = ListDir(scratch).value();
  for (const std::string& name : names) {
    if (!absl::EndsWith(name, ".sst") || corrupted >= 2) continue;
    std::fstream file(JoinPath(scratch, name), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(0, std::ios::end);
    const int64_t size = file.tellg();
    for (int64_t at = 100; at < size / 2; at += 512) {
      file.seekp(at);
      file.write("\xDE\xAD\xBE\xEF", 4);
    }
    ++corrupted;
  }
  return corrupted;
}

TEST(TableFaultTest, UnreadableColdRowsAreNamedAndTheOthersStayReadable) {
  TestDir dir;
  const std::string scratch = dir.File("scratch");
  auto table = OpenTable(ColdSpec(64), scratch);  // 5 MB: far more than the block cache.
  const std::vector<uint64_t> ids = MakeIds(0, 10'000);
  std::vector<float> made, weights(65);
  ASSERT_OK(Create(table.get(), ids, &made));
  AwaitQuiet(scratch);
  ASSERT_GT(Corrupt(scratch), 0);
  int lost = 0, read = 0;
  absl::Status last;
  for (size_t i = 0; i < ids.size(); ++i) {
    absl::Status status = table->Lookup({&ids[i], 1}, weights);
    if (status.ok()) {
      ASSERT_TRUE(std::equal(weights.begin(), weights.end(), &made[i * 65])) << i;
      ++read;
      continue;
    }
    last = status;
    ++lost;
  }
  EXPECT_GT(lost, 10);
  EXPECT_GT(read, 100);
  EXPECT_TRUE(absl::IsDataLoss(last) || absl::IsUnavailable(last)) << last;
  EXPECT_TRUE(absl::StrContains(last.message(), scratch)) << last;
  // Whole batches, walks and snapshots say so too, and none of them dies.
  absl::Status walk = table->ForEach([](uint64_t, const RowMeta&, std::span<const float>) {});
  EXPECT_TRUE(absl::StrContains(walk.message(), scratch)) << walk;
  EXPECT_FALSE(SnapshotTo(table.get(), dir.File("t.rows")).ok());
  table->Prefetch(ids);
  EXPECT_FALSE(Create(table.get(), ids, &weights).ok());
  EXPECT_FALSE(table->ApplyGradients(ids, made, 1.0f).ok());
}

TEST(TableFaultTest, AStepThatMeetsUnreadableRowsIsWholeOrNotAtAllForEveryRow) {
  TestDir dir;
  const std::string scratch = dir.File("scratch");
  auto table = OpenTable(ColdSpec(64), scratch);
  const std::vector<uint64_t> ids = MakeIds(0, 10'000);
  std::vector<float> made, grads(ids.size() * 65, 0.5f), weights(65);
  ASSERT_OK(Create(table.get(), ids, &made));
  AwaitQuiet(scratch);
  ASSERT_GT(Corrupt(scratch), 0);
  absl::Status status = table->ApplyGradients(ids, grads, 1.0f);
  EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), scratch)) << status;
  int stepped = 0, as_before = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!table->Lookup({&ids[i], 1}, weights).ok()) continue;
    const std::vector<float> before(&made[i * 65], &made[(i + 1) * 65]);
    std::vector<float> row(table->layout().floats());
    table->layout().InitRow(TableSeed(table->spec()), ids[i], row);
    ASSERT_TRUE(std::equal(before.begin(), before.end(), row.begin()));
    table->layout().Apply(1.0f, row, std::span(grads).first(65));
    const bool is_stepped = std::equal(weights.begin(), weights.end(), row.begin());
    ASSERT_TRUE(is_stepped || weights == before) << "row " << i << " took a part of its step";
    ++(is_stepped ? stepped : as_before);
  }
  EXPECT_GT(stepped, 0);
  EXPECT_GT(as_before, 0);
  // The table goes on: rows that can be read take the next step.
  std::vector<uint64_t> fresh = MakeIds(50'000, 100);
  ASSERT_OK(Create(table.get(), fresh, &made));
  ASSERT_OK(table->ApplyGradients(fresh, std::span(grads).first(fresh.size() * 65), 1.0f));
}

// ---- Row files that do not fit ----

// The dtype is how a table keeps its weights, not what the file holds.
TEST(TableFaultTest, AnotherDtypeIsTakenInAndRounded) {
  TestDir dir;
  const std::vector<uint64_t> ids = MakeIds(0, 100);
  auto table = OpenTable(MakeSpec("adagrad"));
  std::vector<float> exact, rounded(ids.size() * 5);
  ASSERT_OK(Create(table.get(), ids, &exact));
  ASSERT_OK(SnapshotTo(table.get(), dir.File("t.rows")));
  TableSpec narrow = MakeSpec("adagrad");
  narrow.mutable_options()->set_dtype(TableOptions::BF16);
  auto other = OpenTable(narrow);
  ASSERT_OK(RestoreFrom(other.get(), dir.File("t.rows")));
  ASSERT_OK(other->Lookup(ids, rounded));
  EXPECT_NE(rounded, exact);
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_NEAR(rounded[i], exact[i], std::abs(exact[i]) / 256);
  }
  // What was rounded once goes back and forth unchanged.
  ASSERT_OK(SnapshotTo(other.get(), dir.File("n.rows")));
  auto back = OpenTable(MakeSpec("adagrad"));
  ASSERT_OK(RestoreFrom(back.get(), dir.File("n.rows")));
  ASSERT_OK(back->Lookup(ids, exact));
  EXPECT_EQ(rounded, exact);
}

TEST(TableFaultTest, RestoreIsRefusedWhileASnapshotIsWritten) {
  TestDir dir;
  auto table = OpenTable(MakeSpec("adagrad"));
  std::vector<float> weights;
  ASSERT_OK(Create(table.get(), MakeIds(0, 1000), &weights));
  ASSERT_OK(SnapshotTo(table.get(), dir.File("a.rows")));
  std::promise<void> started, go_on;
  SetSyncPointHandler([&](absl::string_view name) {
    if (name != "store.snapshot.start") return;
    started.set_value();
    go_on.get_future().wait();
  });
  auto snapshot = table->StartSnapshot(dir.File("b.rows"), {});
  started.get_future().wait();
  absl::Status status = RestoreFrom(table.get(), dir.File("a.rows"));
  go_on.set_value();
  EXPECT_TRUE((*snapshot)->Wait().ok());
  SetSyncPointHandler(nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  ASSERT_OK(RestoreFrom(table.get(), dir.File("a.rows")));
}

}  // namespace
}  // namespace starling
