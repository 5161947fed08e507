#include "ps/parameter_store.h"

#include <atomic>
#include <thread>

#include "base/optimizer.h"
#include "gtest/gtest.h"
#include "ps/shard_map.h"
#include "ps/store_testing.h"

namespace starling {
namespace {

void Pull(ParameterStore& store, TestBatch& batch, PullMode mode = PullMode::kCreate) {
  absl::Status status = store.PullRows(mode, batch.keys, batch.row_spans);
  ASSERT_TRUE(status.ok()) << status;
}

// Pulls and pushes batches [first, last) as split 0.
void Train(ParameterStore& store, uint32_t first, uint32_t last) {
  for (uint32_t i = first; i < last; ++i) {
    TestBatch batch(i);
    Pull(store, batch);
    bool applied = false;
    absl::Status status = PushBatch(store, NameOf(i), batch, &applied);
    ASSERT_TRUE(status.ok() && applied) << status;
  }
}

StoreContent Content(ParameterStore& store) {
  StoreContent content;
  content.Add(store);
  return content;
}

TEST(ShardMapTest, BucketsAreEqualContiguousRuns) {
  for (int servers : {1, 2, 3, 7, 4096}) {
    ShardMap map(servers);
    std::vector<int> ids_of(servers);
    int last = 0;
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < 50000; ++i) ids.push_back(Mix64(i));
    std::sort(ids.begin(), ids.end(), IdBefore);
    for (uint64_t id : ids) {
      EXPECT_GE(map.ServerOf(id), last);
      last = map.ServerOf(id);
      ASSERT_LT(last, servers);
      ++ids_of[last];
    }
    EXPECT_GT(*std::min_element(ids_of.begin(), ids_of.end()), 50000 / servers / 4 - 2);
  }
}

TEST(ParameterStoreTest, ReadOnlyPullMakesNoRow) {
  auto store = TestStore(TestConfig());
  TestBatch batch(1);
  Pull(*store, batch, PullMode::kReadOnly);
  EXPECT_EQ(store->table(0).rows() + store->table(1).rows(), 0);
  for (float w : batch.rows[0]) EXPECT_EQ(w, 0);
  Pull(*store, batch, PullMode::kCreate);
  EXPECT_EQ(store->table(0).rows(), static_cast<int64_t>(batch.ids[0].size()));
  EXPECT_NE(batch.rows[0][0], 0);
}

TEST(ParameterStoreTest, PushStepsRowsByTheirOptimizer) {
  StoreConfig config = TestConfig();
  auto store = TestStore(config);
  TestBatch batch(3), after(3);
  Pull(*store, batch);
  bool applied = false;
  ASSERT_TRUE(PushBatch(*store, NameOf(0), batch, &applied).ok());
  Pull(*store, after, PullMode::kReadOnly);
  auto adam = *Optimizer::Create(config.tables().tables(0).segments(0).optimizer());
  for (size_t i = 0; i < batch.ids[0].size(); ++i) {
    std::vector<float> state(adam->StateSize(4));
    adam->InitState(state);
    std::span<float> row = std::span(batch.rows[0]).subspan(4 * i, 4);
    adam->Step(0.5f, row, state, std::span(batch.grads[0]).subspan(4 * i, 4));
    for (int d = 0; d < 4; ++d) EXPECT_EQ(row[d], after.rows[0][4 * i + d]);
  }
}

TEST(ParameterStoreTest, DensePartsFollowTheirKind) {
  StoreConfig config = TestConfig();
  auto store = TestStore(config);
  std::vector<float> start = RandomFloats(kTestDense, 5), got(kTestDense);
  ASSERT_TRUE(store->SetDense(start).ok());
  TestBatch batch(4);
  Pull(*store, batch);
  bool applied = false;
  for (uint32_t i = 0; i < 2; ++i) ASSERT_TRUE(PushBatch(*store, NameOf(i), batch, &applied).ok());
  ASSERT_TRUE(store->PullDense(got).ok());
  int offset = 0;
  for (const DenseParam& param : config.dense()) {
    std::span<float> values = std::span(start).subspan(offset, param.size());
    std::span<const float> grad = std::span(batch.dense).subspan(offset, param.size());
    OptimizerOptions options = config.dense_optimizer();
    if (!param.decay()) options.set_l2(0);
    auto optimizer = *Optimizer::Create(options);
    std::vector<float> state(optimizer->StateSize(static_cast<int>(param.size())));
    optimizer->InitState(state);
    for (int step = 0; step < 2; ++step) {
      if (param.statistic()) {
        for (size_t i = 0; i < grad.size(); ++i) values[i] += grad[i];
      } else {
        optimizer->Step(0.5f, values, state, grad);
      }
    }
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], got[offset + i]) << param.name() << " " << i;
    }
    offset += static_cast<int>(param.size());
  }
}

TEST(ParameterStoreTest, RepeatedPushChangesNothing) {
  auto store = TestStore(TestConfig());
  Train(*store, 0, 5);
  StoreContent before = Content(*store);
  for (uint32_t i = 0; i < 5; ++i) {
    TestBatch other(i + 100);  // Even with other gradients: the name decides.
    bool applied = true;
    ASSERT_TRUE(PushBatch(*store, NameOf(i), other, &applied).ok());
    EXPECT_FALSE(applied);
  }
  EXPECT_TRUE(Content(*store) == before);
  EXPECT_EQ(store->batches_applied(), 5);
  EXPECT_EQ(store->batches_repeated(), 5);
}

TEST(ParameterStoreTest, ConcurrentCopiesOfAPushApplyOnce) {
  auto store = TestStore(TestConfig()), expected = TestStore(TestConfig());
  constexpr uint32_t kBatches = 20;
  std::atomic<int> applied_count{0};
  for (uint32_t i = 0; i < kBatches; ++i) {  // One at a time: their order is part of the result.
    TestBatch batch(i);
    Pull(*store, batch);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        bool applied = false;
        EXPECT_TRUE(PushBatch(*store, NameOf(i), batch, &applied).ok());
        applied_count += applied;
      });
    }
    for (std::thread& t : threads) t.join();
  }
  Train(*expected, 0, kBatches);
  EXPECT_EQ(applied_count.load(), static_cast<int>(kBatches));
  EXPECT_EQ(store->batches_repeated(), 3 * kBatches);
  EXPECT_TRUE(Content(*store) == Content(*expected));
}

TEST(ParameterStoreTest, WrongShapesAreInvalidAndLeaveNoName) {
  auto store = TestStore(TestConfig());
  TestBatch batch(1);
  Pull(*store, batch);
  bool applied = true;
  std::vector<std::span<const float>> short_grads = batch.grad_spans;
  short_grads[1] = short_grads[1].subspan(1);
  auto invalid = [](const absl::Status& s) { return absl::IsInvalidArgument(s); };
  EXPECT_TRUE(invalid(store->Push(NameOf(0), 1, batch.keys, short_grads, {}, &applied)));
  EXPECT_TRUE(invalid(
      store->Push(NameOf(0), 1, batch.keys, batch.grad_spans, std::vector<float>(3), &applied)));
  EXPECT_TRUE(invalid(store->Push(NameOf(0), 1, std::span(batch.keys).first(1),
                                  std::span(batch.grad_spans).first(1), {}, &applied)));
  EXPECT_FALSE(applied);
  std::vector<TableKeys> keys = batch.keys;
  keys[0].counts = keys[0].counts.subspan(1);
  EXPECT_TRUE(invalid(store->PullRows(PullMode::kCreate, keys, batch.row_spans)));
  std::vector<float> dense(kTestDense + 1);
  EXPECT_TRUE(invalid(store->PullDense(dense)));
  EXPECT_TRUE(PushBatch(*store, NameOf(0), batch, &applied).ok());
  EXPECT_TRUE(applied);
}

TEST(ParameterStoreTest, ImpossibleConfigIsRefused) {
  auto refused = [](const std::function<void(StoreConfig&)>& change, int shard = 0) {
    StoreConfig config = TestConfig();
    change(config);
    return absl::IsInvalidArgument(
        ParameterStore::Create(config, shard, 2, TestPath("scratch")).status());
  };
  EXPECT_TRUE(refused([](StoreConfig& c) { c.mutable_dense(1)->set_name("w1"); }));
  EXPECT_TRUE(refused([](StoreConfig& c) { c.mutable_dense(1)->set_size(0); }));
  EXPECT_TRUE(refused([](StoreConfig& c) { c.clear_dense_optimizer(); }));
  EXPECT_TRUE(refused([](StoreConfig& c) {
    c.mutable_tables()->mutable_tables(1)->mutable_options()->set_name("users");
  }));
  EXPECT_TRUE(refused([](StoreConfig&) {}, 2));
  // Ids of two shards would share rows; one shard has them all.
  StoreConfig shared = TestConfig();
  shared.mutable_tables()->mutable_tables(0)->mutable_options()->mutable_multi_hash()->set_rows(9);
  EXPECT_TRUE(refused([&](StoreConfig& c) { c = shared; }));
  EXPECT_TRUE(ParameterStore::Create(shared, 0, 1, TestPath("scratch")).ok());
}

// The parts of a checkpoint that `writers` shards wrote after batches [0, 6).
struct SavedParts {
  explicit SavedParts(int writers) : dir(TestPath(absl::StrCat("saved", writers))) {
    ShardMap map(writers);
    for (int w = 0; w < writers; ++w) {
      auto store = TestStore(TestConfig(), w, writers);
      for (uint32_t i = 0; i < 6; ++i) PushOwned(*store, map, i);
      auto entries = store->Save(dir);
      EXPECT_TRUE(entries.ok()) << entries.status();
      files.insert(files.end(), entries->begin(), entries->end());
      content.Add(*store);
    }
  }
  // What a client would send to this shard.
  static void PushOwned(ParameterStore& store, const ShardMap& map, uint32_t i) {
    TestBatch batch(i);
    for (int t = 0; t < 2; ++t) {
      size_t lo = 0, n = 0;
      for (uint64_t id : batch.ids[t]) {
        lo += map.ServerOf(id) < store.shard();
        n += map.ServerOf(id) == store.shard();
      }
      batch.keys[t] = {std::span<const uint64_t>(batch.ids[t]).subspan(lo, n), {}, {}};
      int width = kTestWidths[t];
      batch.grad_spans[t] = batch.grad_spans[t].subspan(lo * width, n * width);
      batch.row_spans[t] = batch.row_spans[t].subspan(lo * width, n * width);
    }
    bool applied = false;
    Pull(store, batch);
    ASSERT_TRUE(PushBatch(store, NameOf(i), batch, &applied).ok());
  }

  std::string dir;
  std::vector<FileSetEntry> files;
  StoreContent content;
};

class ReshardTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Shards, ReshardTest, testing::Values(1, 2, 3));

TEST_P(ReshardTest, LoadIntoAnyNumberOfShardsGivesEqualContent) {
  SavedParts saved(2);
  EXPECT_GT(saved.content.rows.size(), 100u);
  StoreContent loaded, expected;
  ShardMap map(GetParam());
  for (int s = 0; s < GetParam(); ++s) {
    auto store = TestStore(TestConfig(), s, GetParam());
    absl::Status status = store->Load({{saved.dir, saved.files}});
    ASSERT_TRUE(status.ok()) << status;
    loaded.Add(*store);
    bool applied = true;
    TestBatch none(0, 0);
    EXPECT_TRUE(PushBatch(*store, NameOf(5), none, &applied).ok());
    EXPECT_FALSE(applied) << "the names are part of the cut";
    SavedParts::PushOwned(*store, map, 6);  // State of optimisers included.
    expected.Add(*store);
  }
  EXPECT_TRUE(loaded == saved.content);
  auto whole = TestStore(TestConfig());
  Train(*whole, 0, 7);
  StoreContent in_one = Content(*whole);
  EXPECT_EQ(in_one.dense, expected.dense);
  ASSERT_EQ(in_one.rows.size(), expected.rows.size());
  for (auto& [key, row] : in_one.rows) {
    EXPECT_EQ(std::get<2>(row), std::get<2>(expected.rows.at(key)));
  }
}

TEST(ParameterStoreTest, DamagedPartsAreDataLoss) {
  SavedParts saved(1);
  for (const std::string name : {"dense.bin", "applied-0-of-1.bin"}) {
    const std::string path = JoinPath(saved.dir, name);
    const std::string good = *ReadFile(path);
    for (size_t i : {size_t{0}, size_t{9}, good.size() / 2, good.size() - 1}) {
      std::string bad = good;
      bad[i] ^= 1;
      ASSERT_TRUE(WriteFileAtomically(path, bad).ok());
      // By the manifest's checksum, and by the file's own when it is described anew.
      EXPECT_TRUE(absl::IsDataLoss(TestStore(TestConfig())->Load({{saved.dir, saved.files}})));
      std::vector<FileSetEntry> anew = saved.files;
      for (FileSetEntry& entry : anew) {
        if (entry.name == name) entry = *DescribeSetFile(saved.dir, name);
      }
      absl::Status status = TestStore(TestConfig())->Load({{saved.dir, anew}});
      EXPECT_TRUE(absl::IsDataLoss(status)) << name << " byte " << i << ": " << status;
      EXPECT_NE(status.message().find(name), absl::string_view::npos) << status;
    }
    ASSERT_TRUE(WriteFileAtomically(path, good).ok());
  }
  EXPECT_TRUE(TestStore(TestConfig())->Load({{saved.dir, saved.files}}).ok());
}

// Bytes with their plain CRC32C at the end all have one CRC32C.
TEST(ParameterStoreTest, AManifestTellsPartsOfOneSizeApart) {
  std::map<std::string, FileSetEntry> before;
  auto store = TestStore(TestConfig());
  for (uint32_t i = 0; i < 3; ++i) {
    Train(*store, 100 + i, 101 + i);
    auto files = store->Save(TestPath("saved"));
    ASSERT_TRUE(files.ok()) << files.status();
    for (const FileSetEntry& file : *files) {
      EXPECT_NE(file.crc32c, before[file.name].crc32c) << file.name;
      before[file.name] = file;
    }
  }
}

// All of a chain's files are read by some shard, and no other file is taken for one of them.
TEST(ParameterStoreTest, DamageToAnyFileOfAChainIsNoticed) {
  auto store = TestStore(TestConfig());
  std::vector<StoredCut> chain;
  std::vector<uint32_t> since;
  for (uint32_t i = 0; i < 3; ++i) {
    Train(*store, 2 * i, 2 * i + 2);
    const std::string dir = TestPath(absl::StrCat("cut", i));
    auto cut = store->StartCut(dir, {.since = since});
    ASSERT_TRUE(cut.ok()) << cut.status();
    auto files = (*cut)->Wait();
    ASSERT_TRUE(files.ok()) << files.status();
    chain.push_back({dir, *files});
    since = (*cut)->epochs();
  }
  for (int shards : {1, 2}) {
    auto load = [&] {
      absl::Status status;
      for (int s = 0; s < shards; ++s)
        status.Update(TestStore(TestConfig(), s, shards)->Load(chain));
      return status;
    };
    EXPECT_TRUE(load().ok());
    for (StoredCut& cut : chain) {
      for (FileSetEntry& file : cut.files) {
        const std::string path = JoinPath(cut.dir, file.name);
        const std::string good = *ReadFile(path);
        for (size_t i = 0; i < good.size(); i += 1 + good.size() / 7) {
          std::string bad = good;
          bad[i] ^= 1;
          ASSERT_TRUE(WriteFileAtomically(path, bad).ok());
          EXPECT_TRUE(absl::IsDataLoss(load())) << path << " byte " << i;
        }
        ASSERT_TRUE(WriteFileAtomically(path, good).ok());
        file.crc32c ^= 1;  // The file is whole, and the manifest means another.
        EXPECT_TRUE(absl::IsDataLoss(load())) << path;
        file.crc32c ^= 1;
      }
    }
  }
}

TEST(ParameterStoreTest, CheckpointOfAnotherModelIsRefusedByName) {
  SavedParts saved(1);
  auto refusal = [&](const std::function<void(StoreConfig&)>& change) {
    StoreConfig config = TestConfig();
    change(config);
    absl::Status status = TestStore(config)->Load({{saved.dir, saved.files}});
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    return std::string(status.message());
  };
  auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(refusal([](StoreConfig& c) { c.mutable_dense(0)->set_size(7); }), "w1"));
  EXPECT_TRUE(has(refusal([](StoreConfig& c) { c.mutable_dense(0)->set_name("w9"); }), "w1"));
  EXPECT_TRUE(has(refusal([](StoreConfig& c) {
                    c.add_dense()->set_name("w9");
                    c.mutable_dense(4)->set_size(1);
                  }),
                  "w9"));
  EXPECT_TRUE(
      has(refusal([](StoreConfig& c) { c.mutable_dense_optimizer()->mutable_sgd()->set_lr(1); }),
          "adam"));
  EXPECT_TRUE(has(refusal([](StoreConfig& c) {
                    c.mutable_tables()->mutable_tables(1)->mutable_options()->set_name("other");
                  }),
                  "items"));
}

TEST(ParameterStoreTest, LoadIntoAUsedStoreIsRefused) {
  SavedParts saved(1);
  auto store = TestStore(TestConfig());
  Train(*store, 0, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(store->Load({{saved.dir, saved.files}})));
}

TEST(ParameterStoreTest, FullDiskFailsTheSave) {
  auto store = TestStore(TestConfig());
  Train(*store, 0, 2);
  SetFileFault([](absl::string_view op, absl::string_view path) {
    bool hit = op == "sync" && path.find("dense.bin") != absl::string_view::npos;
    return hit ? absl::ResourceExhaustedError("no space left") : absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsResourceExhausted(store->Save(TestPath("full")).status()));
  SetFileFault(nullptr);
  EXPECT_TRUE(store->Save(TestPath("full")).ok());
}

}  // namespace
}  // namespace starling
