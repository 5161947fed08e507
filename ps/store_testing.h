// What the tests of this folder share: a small config, directories, ids in
// batch order, and the whole content of a store as comparable values.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/test_root.h"
#include "gtest/gtest.h"
#include "ps/parameter_client.h"
#include "ps/parameter_store.h"

namespace starling {

// A fresh path under the test's own directory.
inline std::string TestPath(const std::string& name) {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  std::string path = JoinPath(TestRoot(), absl::StrCat(test->name(), "_", name));
  EXPECT_TRUE(RemoveAll(path).ok());
  return path;
}

// Two tables (Adam of width 4, Adagrad of width 1 + 2), five dense tensors.
inline StoreConfig TestConfig() {
  StoreConfig config;
  auto table = [&](const std::string& name, std::vector<int> dims) {
    TableSpec* spec = config.mutable_tables()->add_tables();
    spec->mutable_options()->set_name(name);
    spec->mutable_options()->set_tier(TableOptions::MEMORY);
    spec->mutable_options()->set_memory(16 << 20);
    spec->set_seed(7);
    for (int dim : dims) {
      SegmentSpec* segment = spec->add_segments();
      segment->set_name(absl::StrCat("segment", dim));
      segment->set_dim(dim);
      segment->set_init(0.1);
      if (dims.size() == 1) {
        segment->mutable_optimizer()->mutable_adam()->set_lr(0.05);
      } else {
        segment->mutable_optimizer()->mutable_adagrad()->set_lr(0.1);
      }
    }
  };
  table("users", {4});
  table("items", {1, 2});
  auto dense = [&](const std::string& name, int64_t size) {
    DenseParam* param = config.add_dense();
    param->set_name(name);
    param->set_size(size);
    return param;
  };
  dense("w1", 6);
  dense("b1", 3)->set_decay(false);
  dense("mean", 2)->set_statistic(true);
  dense("w2", 4);
  config.mutable_dense_optimizer()->mutable_adam()->set_lr(0.01);
  config.mutable_dense_optimizer()->set_l2(0.1);
  return config;
}
constexpr int kTestDense = 15;
constexpr int kTestWidths[] = {4, 3};

inline std::unique_ptr<ParameterStore> TestStore(const StoreConfig& config, int shard = 0,
                                                 int shards = 1) {
  auto store = ParameterStore::Create(config, shard, shards, TestPath("scratch"));
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

inline std::vector<float> RandomFloats(size_t n, uint64_t seed) {
  std::vector<float> floats(n);
  for (size_t i = 0; i < n; ++i) floats[i] = static_cast<float>(RandomNormal(seed, i));
  return floats;
}

// One batch: ids in the order of batches, gradients for all of it.
struct TestBatch {
  explicit TestBatch(uint64_t seed, int ids_a_table = 50) : dense(RandomFloats(kTestDense, seed)) {
    for (int t = 0; t < 2; ++t) {
      std::vector<uint64_t> drawn;
      for (int i = 0; i < ids_a_table; ++i) drawn.push_back(Mix64(RandomBelow(seed + t, i, 200)));
      std::sort(drawn.begin(), drawn.end(), IdBefore);
      drawn.erase(std::unique(drawn.begin(), drawn.end()), drawn.end());
      ids.push_back(std::move(drawn));
      counts.emplace_back(ids[t].size(), static_cast<uint32_t>(1 + seed % 3));
      times.emplace_back(ids[t].size(), static_cast<int64_t>(1000 + seed));
      grads.push_back(RandomFloats(ids[t].size() * kTestWidths[t], seed * 2 + t));
      rows.emplace_back(ids[t].size() * kTestWidths[t]);
    }
    for (int t = 0; t < 2; ++t) {
      keys.push_back({ids[t], counts[t], times[t]});
      grad_spans.push_back(grads[t]);
      row_spans.push_back(rows[t]);
    }
  }
  TestBatch(TestBatch&&) = delete;

  std::vector<float> dense;
  std::vector<std::vector<uint64_t>> ids;
  std::vector<std::vector<uint32_t>> counts;
  std::vector<std::vector<int64_t>> times;
  std::vector<std::vector<float>> grads, rows;
  std::vector<TableKeys> keys;
  std::vector<std::span<const float>> grad_spans;
  std::vector<std::span<float>> row_spans;
};

inline BatchName NameOf(uint32_t batch, uint32_t split = 0) { return {42, 0, split, batch}; }

inline absl::Status PushBatch(ParameterStore& store, const BatchName& name, TestBatch& batch,
                              bool* applied) {
  std::span<const float> dense;
  if (store.shard() == 0) dense = batch.dense;
  return store.Push(name, 0.5f, batch.keys, batch.grad_spans, dense, applied);
}

// Everything a store holds that training depends on.
struct StoreContent {
  using Row = std::tuple<uint32_t, int64_t, std::vector<float>>;  // Frequency, event time, floats.
  std::map<std::pair<int, uint64_t>, Row> rows;
  std::vector<float> dense;

  void Add(ParameterStore& store) {
    for (int t = 0; t < store.tables(); ++t) {
      absl::Status status = store.table(t).ForEach(
          [&](uint64_t id, const RowMeta& meta, std::span<const float> floats) {
            bool added =
                rows.emplace(std::pair(t, id),
                             Row{meta.frequency, meta.event_time, {floats.begin(), floats.end()}})
                    .second;
            EXPECT_TRUE(added) << "id " << id << " is on two shards";
          });
      EXPECT_TRUE(status.ok()) << status;
    }
    if (store.shard() != 0) return;
    dense.resize(kTestDense);
    EXPECT_TRUE(store.PullDense(dense).ok());
  }
  bool operator==(const StoreContent&) const = default;
};

}  // namespace starling
