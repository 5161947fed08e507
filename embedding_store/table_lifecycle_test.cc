// What a table promises beyond plain reads and steps: admission, ageing,
// update: dense, and snapshots that fail or do not fit.
#include <sys/mount.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "base/metrics.h"
#include "embedding_store/embedding_table.h"
#include "embedding_store/table_test_util.h"

namespace starling {
namespace {

bool KeepAll(uint64_t) { return true; }

bool AllZero(const std::vector<float>& v) { return v == std::vector<float>(v.size(), 0.0f); }

TEST(TableLifecycleTest, RefusedIdReadsAsZerosAndTakesNoGradient) {
  TableSpec spec = MakeSpec("adagrad");
  spec.mutable_options()->mutable_admit()->set_count(3);
  auto table = OpenTable(spec);
  std::vector<uint64_t> ids = MakeIds(0, 40);
  EXPECT_TRUE(AllZero(CreateRows(table.get(), ids)));
  ASSERT_OK(table->ApplyGradients(ids, std::vector<float>(ids.size() * 5, 1.0f), 1.0f));
  EXPECT_TRUE(AllZero(CreateRows(table.get(), ids)));
  EXPECT_EQ(table->rows(), 0);
  EXPECT_EQ(table->stats().refused, 80);
  EXPECT_FALSE(AllZero(CreateRows(table.get(), ids)));
  EXPECT_EQ(table->stats().created, 40);
  EXPECT_EQ(table->rows(), 40);
}

TEST(TableLifecycleTest, AdmissionStateIsPartOfTheSnapshot) {
  TestDir dir;
  TableSpec spec = MakeSpec("adagrad");
  spec.mutable_options()->mutable_admit()->set_count(3);
  auto table = OpenTable(spec);
  std::vector<uint64_t> ids = MakeIds(0, 40);
  CreateRows(table.get(), ids);
  CreateRows(table.get(), ids);
  ASSERT_OK(SnapshotTo(table.get(), dir.File("t.rows")));
  auto restored = OpenTable(spec);
  ASSERT_OK(RestoreFrom(restored.get(), dir.File("t.rows")));
  EXPECT_EQ(CreateRows(restored.get(), ids), CreateRows(table.get(), ids));
  EXPECT_EQ(restored->rows(), 40);
}

TEST(TableLifecycleTest, RowOlderThanTtlStartsAnew) {
  TableSpec spec = MakeSpec("adagrad");
  spec.mutable_options()->mutable_evict()->set_ttl(100);
  auto table = OpenTable(spec);
  std::vector<uint64_t> ids = MakeIds(0, 40);
  const std::vector<float> fresh = CreateRows(table.get(), ids, 1000);
  ASSERT_OK(table->ApplyGradients(ids, std::vector<float>(fresh.size(), 1.0f), 1.0f));
  const std::vector<float> trained = LookRows(*table, ids);
  EXPECT_NE(trained, fresh);
  EXPECT_EQ(CreateRows(table.get(), ids, 1100), trained);  // On time; the row is now of 1100.
  EXPECT_EQ(CreateRows(table.get(), ids, 1050), trained);  // A late event does not turn it back.
  EXPECT_EQ(CreateRows(table.get(), ids, 0), trained);     // Event time unknown: no ageing.
  EXPECT_EQ(CreateRows(table.get(), ids, 1201), fresh);
  EXPECT_EQ(table->stats().expired, 40);
  EXPECT_EQ(table->rows(), 40);
  ASSERT_OK(table->ForEach([](uint64_t, const RowMeta& meta, std::span<const float>) {
    EXPECT_EQ(meta.frequency, 1u);
    EXPECT_EQ(meta.event_time, 1201);
  }));
}

TEST(TableLifecycleTest, FrequencySaturates) {
  auto table = OpenTable(MakeSpec("sgd"));
  std::vector<uint64_t> ids = {1};
  std::vector<uint32_t> counts = {0xF0000000};
  std::vector<float> weights(5);
  for (int i = 0; i < 2; ++i) ASSERT_OK(table->LookupOrCreate(ids, counts, {}, weights));
  ASSERT_OK(table->ForEach([](uint64_t, const RowMeta& meta, std::span<const float>) {
    EXPECT_EQ(meta.frequency, 0xFFFFFFu);
  }));
}

TEST(TableLifecycleTest, ErasedIdIsUnknown) {
  auto table = OpenTable(MakeSpec("sgd"));
  std::vector<uint64_t> ids = MakeIds(0, 10);
  CreateRows(table.get(), ids);
  ASSERT_OK(table->Erase(std::span(ids).first(4)));
  EXPECT_EQ(table->rows(), 6);
  EXPECT_TRUE(AllZero(LookRows(*table, {ids.begin(), ids.begin() + 4})));
}

TEST(TableLifecycleTest, MetricsAreThoseOfTheMomentTheyAreRead) {
  TableSpec spec = MakeSpec("sgd");
  spec.mutable_options()->set_name("measured");
  auto table = OpenTable(spec);
  CreateRows(table.get(), MakeIds(0, 10));
  ASSERT_OK(table->Erase(MakeIds(0, 10)));
  CreateRows(table.get(), MakeIds(0, 7));
  auto line = [](const std::string& metric, double value) {
    return absl::StrCat(metric, "} ", value, "\n");
  };
  const std::string text = MetricsText();
  for (const std::string& expected :
       {line("starling_table_rows{table=\"measured\",tier=\"memory\"", 7),
        line("starling_table_ids{found=\"nowhere\",table=\"measured\"", 17),
        line("starling_table_events{event=\"created\",table=\"measured\"", 17),
        line("starling_table_events{event=\"erased\",table=\"measured\"", 10)}) {
    EXPECT_NE(text.find(expected), std::string::npos) << expected << text;
  }
  table.reset();
  MetricsText();  // Asks the table no more.
}

// ---- update: dense ----

TableSpec DenseSpec() {
  TableSpec spec = MakeSpec("adam");
  spec.mutable_options()->set_tier(TableOptions::ROCKSDB);
  spec.mutable_options()->set_update(TableOptions::DENSE);
  spec.mutable_segments(1)->mutable_optimizer()->set_l2(0.1);
  return spec;
}

// One Adam over the whole table, as torch.optim.Adam with weight_decay.
TEST(TableLifecycleTest, DenseUpdateStepsEveryRow) {
  TestDir dir;
  TableSpec spec = DenseSpec();
  auto table = OpenTable(spec, dir.File("scratch"));
  std::vector<uint64_t> all = MakeIds(0, 20);
  CreateRows(table.get(), all);
  RowLayout layout = *RowLayout::Create(spec);
  std::vector<std::vector<float>> model(all.size(), std::vector<float>(layout.floats()));
  for (size_t i = 0; i < all.size(); ++i) layout.InitRow(TableSeed(spec), all[i], model[i]);
  for (size_t step = 0; step < 5; ++step) {
    std::vector<uint64_t> ids = {all[step], all[step + 7]};
    std::vector<float> grads(10, 0.25f);
    ASSERT_OK(table->ApplyGradients(ids, grads, 1.0f));
    for (size_t i = 0; i < all.size(); ++i) {
      std::vector<float> g(5, i == step || i == step + 7 ? 0.25f : 0.0f);
      layout.Apply(1.0f, model[i], g);
    }
  }
  ASSERT_OK(table->ApplyGradients({}, {}, 1.0f));
  size_t i = 0;
  ASSERT_OK(table->ForEach([&](uint64_t id, const RowMeta&, std::span<const float> floats) {
    layout.Apply(1.0f, model[i], std::vector<float>(5, 0.0f));
    EXPECT_EQ(id, all[i]);
    EXPECT_EQ(std::vector<float>(floats.begin(), floats.end()), model[i]);
    EXPECT_EQ(floats.back(), 6.0f);  // Adam's step counter.
    ++i;
  }));
  EXPECT_EQ(i, all.size());
}

TEST(TableLifecycleTest, DenseStepCountIsTheTablesAndSurvivesARestore) {
  TestDir dir;
  auto table = OpenTable(DenseSpec(), dir.File("scratch"));
  CreateRows(table.get(), MakeIds(0, 5));
  for (int step = 0; step < 3; ++step) ASSERT_OK(table->ApplyGradients({}, {}, 1.0f));
  ASSERT_OK(SnapshotTo(table.get(), dir.File("t.rows")));
  auto restored = OpenTable(DenseSpec(), dir.File("scratch2"));
  ASSERT_OK(RestoreFrom(restored.get(), dir.File("t.rows")));
  for (EmbeddingTable* t : {table.get(), restored.get()}) {
    CreateRows(t, MakeIds(100, 5));
    ASSERT_OK(t->ApplyGradients({}, {}, 1.0f));
    ASSERT_OK(t->ForEach([](uint64_t, const RowMeta&, std::span<const float> floats) {
      EXPECT_EQ(floats.back(), 4.0f);
    }));
  }
}

// ---- Faults ----

TEST(TableLifecycleTest, ScratchThatCannotBeMadeIsNamed) {
  TestDir dir;
  ASSERT_OK(WriteFileAtomically(dir.File("file"), "x"));
  TableSpec spec = MakeSpec("adagrad");
  spec.mutable_options()->set_tier(TableOptions::ROCKSDB);
  spec.mutable_options()->set_memory(kTinyMemory);
  auto table = OpenTable(spec, dir.File("file/scratch"));
  std::vector<uint64_t> ids = MakeIds(0, 3000);
  std::vector<float> weights(ids.size() * 5);
  absl::Status status = table->LookupOrCreate(ids, {}, {}, weights);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(dir.File("file/scratch")), absl::string_view::npos) << status;
}

// Files may not pass 1 MB while this lives: RocksDB's writes fail as on a full disk.
class FileSizeLimit {
 public:
  FileSizeLimit() {
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limit = old_;
    limit.rlim_cur = 1'000'000;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_;
  void (*old_handler_)(int);
};

TEST(TableLifecycleTest, FailedDemotionLosesNoAcknowledgedRow) {
  TestDir dir;
  TableSpec spec = MakeSpec("adagrad", 512);
  spec.mutable_options()->set_tier(TableOptions::ROCKSDB);
  spec.mutable_options()->set_memory(2 << 20);
  auto table = OpenTable(spec, dir.File("scratch"));
  std::vector<std::pair<std::vector<uint64_t>, std::vector<float>>> acknowledged;
  absl::Status status;
  {
    FileSizeLimit limit;
    for (int begin = 0; begin < 30'000 && status.ok(); begin += 100) {
      std::vector<uint64_t> ids = MakeIds(begin, 100);
      std::vector<float> weights(ids.size() * table->width());
      status = table->LookupOrCreate(ids, {}, {}, weights);
      if (status.ok()) acknowledged.emplace_back(ids, weights);
    }
  }
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find(dir.File("scratch")), absl::string_view::npos) << status;
  ASSERT_GT(acknowledged.size(), 5u);  // More than memory holds.
  for (const auto& [ids, weights] : acknowledged) ASSERT_EQ(LookRows(*table, ids), weights);
}

// A file system of its own, of a few megabytes, while this lives.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& dir, const char* size) : dir_(dir) {
    EXPECT_TRUE(MakeDirs(dir).ok());
    mounted_ = ::mount("tmpfs", dir.c_str(), "tmpfs", 0, size) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(dir_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }

 private:
  const std::string dir_;
  bool mounted_ = false;
};

TEST(TableLifecycleTest, AfterADiskWasFullTheTableGoesOn) {
  TestDir dir;
  SmallDisk disk(dir.File("disk"), "size=4m");
  if (!disk.mounted()) GTEST_SKIP() << "needs root, to mount a small file system";
  const std::string ballast = dir.File("disk/ballast");
  TableSpec spec = MakeSpec("adagrad", 512);
  spec.mutable_options()->set_tier(TableOptions::ROCKSDB);
  spec.mutable_options()->set_memory(2 << 20);
  auto table = OpenTable(spec, dir.File("disk/scratch"));
  std::vector<std::pair<std::vector<uint64_t>, std::vector<float>>> acknowledged;
  absl::Status status;
  auto add = [&](int begin) {
    std::vector<uint64_t> ids = MakeIds(begin, 50);
    std::vector<float> weights(ids.size() * table->width());
    status = table->LookupOrCreate(ids, {}, {}, weights);
    if (status.ok()) acknowledged.emplace_back(ids, weights);
    return status.ok();
  };
  ASSERT_OK(WriteFileAtomically(ballast, std::string(3 << 20, 'x')));
  int begin = 0;
  while (begin < 10'000 && add(begin)) begin += 50;
  ASSERT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_NE(status.message().find("free some disk space"), absl::string_view::npos) << status;
  for (const auto& [ids, weights] : acknowledged) ASSERT_EQ(LookRows(*table, ids), weights);
  const size_t before = acknowledged.size();
  ASSERT_OK(RemoveAll(ballast));
  // RocksDB takes a moment to notice.
  for (int tries = 0; tries < 200 && acknowledged.size() < before + 4; ++tries) {
    if (add(20'000 + static_cast<int>(acknowledged.size()) * 50)) continue;
    absl::SleepFor(absl::Milliseconds(50));
  }
  ASSERT_EQ(acknowledged.size(), before + 4) << status;
  for (const auto& [ids, weights] : acknowledged) ASSERT_EQ(LookRows(*table, ids), weights);
}

TEST(TableLifecycleTest, ADiskThatIsFullBeforeTheFirstDemotionIsNamedWithWhatToDo) {
  TestDir dir;
  SmallDisk disk(dir.File("disk"), "size=1m");
  if (!disk.mounted()) GTEST_SKIP() << "needs root, to mount a small file system";
  TableSpec spec = MakeSpec("adagrad", 512);
  spec.mutable_options()->set_tier(TableOptions::ROCKSDB);
  spec.mutable_options()->set_memory(2 << 20);
  auto table = OpenTable(spec, dir.File("disk/scratch"));
  const std::string ballast = dir.File("disk/ballast");
  std::ofstream(ballast) << std::string(1 << 20, 'x');  // As much as there is room for.
  const std::vector<uint64_t> ids = MakeIds(0, 5000);
  std::vector<float> weights(ids.size() * table->width());
  const absl::Status status = table->LookupOrCreate(ids, {}, {}, weights);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_NE(status.message().find(dir.File("disk/scratch")), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("raise the table's memory"), absl::string_view::npos) << status;
}

TEST(TableLifecycleTest, DiskFullInSnapshotLeavesNoRowFile) {
  TestDir dir;
  auto table = OpenTable(MakeSpec("adagrad"));
  CreateRows(table.get(), MakeIds(0, 20'000));
  for (int fail_at = 1;; ++fail_at) {
    int left = fail_at;
    SetFileFault([&left](absl::string_view, absl::string_view path) {
      return --left == 0 ? absl::ResourceExhaustedError(absl::StrCat(path, ": disk full"))
                         : absl::OkStatus();
    });
    absl::Status status = SnapshotTo(table.get(), dir.File("t.rows"));
    SetFileFault(nullptr);
    absl::Status read = OpenTable(MakeSpec("adagrad"))->Restore(dir.File("t.rows"), KeepAll);
    if (status.ok()) {
      EXPECT_TRUE(read.ok()) << read;
      EXPECT_GT(fail_at, 6);  // create, header, blocks, extras, footer, sync.
      break;
    }
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_FALSE(read.ok()) << "operation " << fail_at;
  }
  CreateRows(table.get(), MakeIds(0, 10));  // The table works on.
}

TEST(TableLifecycleTest, RestoreOfAnotherLayoutIsRefusedByName) {
  TestDir dir;
  const std::string path = dir.File("t.rows");
  auto table = OpenTable(MakeSpec("adagrad"));
  CreateRows(table.get(), MakeIds(0, 10));
  ASSERT_OK(SnapshotTo(table.get(), path));
  auto refusal = [&](const TableSpec& spec) {
    absl::Status status = OpenTable(spec)->Restore(path, KeepAll);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(refusal(MakeSpec("adagrad", 8)),
            path + ": table users: segment embedding: dim is 4 in the file and 8 here");
  EXPECT_EQ(
      refusal(MakeSpec("adam")),
      path + ": table users: segment embedding: optimizer is adagrad in the file and adam here");
  TableSpec other = MakeSpec("adagrad");
  other.mutable_options()->set_name("items");
  EXPECT_EQ(refusal(other), path + ": table items: the file holds table users");
  TableSpec fewer = MakeSpec("adagrad");
  fewer.mutable_segments()->RemoveLast();
  EXPECT_EQ(refusal(fewer), path + ": table users: the file's rows have 2 segments, the table's 1");
  TableSpec renamed = MakeSpec("adagrad");
  renamed.mutable_segments(0)->set_name("bias");
  EXPECT_EQ(refusal(renamed),
            path + ": table users: segment bias: name is linear in the file and bias here");
  TableSpec rate = MakeSpec("adagrad");  // A rate or a budget may change.
  rate.mutable_segments(1)->mutable_optimizer()->mutable_adagrad()->set_lr(0.5);
  rate.mutable_options()->set_memory(32 << 20);
  ASSERT_OK(OpenTable(rate)->Restore(path, KeepAll));
}

}  // namespace
}  // namespace starling
