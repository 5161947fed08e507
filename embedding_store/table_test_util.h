// What the table tests share: specs, directories of their own, ids.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/test_root.h"
#include "embedding_store/embedding_table.h"

#define ASSERT_OK(expr)                                \
  do {                                                 \
    absl::Status status_ = (expr);                     \
    ASSERT_TRUE(status_.ok()) << status_; /* NOLINT */ \
  } while (0)

namespace starling {

// The smallest round budget of a tiered table: room for a few hundred rows.
inline constexpr int64_t kTinyMemory = 224 << 10;

// A full snapshot; its files' names are not wanted.
inline absl::Status SnapshotTo(EmbeddingTable* table, const std::string& path) {
  return table->Snapshot(path).status();
}
// Restores all files of a snapshot.
inline absl::Status RestoreFrom(
    EmbeddingTable* table, const std::string& path,
    const std::function<bool(uint64_t)>& keep = [](uint64_t) { return true; }) {
  if (PathExists(path + kColdSuffix)) {
    if (absl::Status s = table->Restore(path + kColdSuffix, keep); !s.ok()) return s;
  }
  return table->Restore(path, keep);
}

// A directory that exists while the object does.
class TestDir {
 public:
  TestDir() {
    static int made = 0;
    path_ = JoinPath(TestRoot(), absl::StrCat("store", made++));
    EXPECT_TRUE(MakeDirs(path_).ok());
  }
  ~TestDir() { RemoveAll(path_).IgnoreError(); }
  std::string File(const std::string& name) const { return JoinPath(path_, name); }

 private:
  std::string path_;
};

// The names of all optimisers.
inline std::vector<std::string> OptimizerRules() {
  const auto* rules = OptimizerOptions::descriptor()->FindOneofByName("rule");
  std::vector<std::string> names;
  for (int i = 0; i < rules->field_count(); ++i) names.push_back(rules->field(i)->name());
  return names;
}

inline OptimizerOptions OptimizerNamed(const std::string& name) {
  OptimizerOptions options;
  const auto* rule = OptimizerOptions::descriptor()->FindFieldByName(name);
  if (rule == nullptr) return options;  // None.
  options.GetReflection()->MutableMessage(&options, rule);
  if (name == "sgd") options.mutable_sgd()->set_lr(0.1);
  if (name == "adagrad") options.mutable_adagrad()->set_lr(0.1);
  if (name == "adam") options.mutable_adam()->set_lr(0.01);
  if (name == "ftrl") options.mutable_ftrl()->set_l1(0.01);
  return options;
}

// Rows of an FM: one linear weight, by FTRL, beside an embedding of `dim`.
inline TableSpec MakeSpec(const std::string& optimizer, int dim = 4) {
  TableSpec spec;
  spec.mutable_options()->set_name("users");
  spec.mutable_options()->set_tier(TableOptions::MEMORY);
  spec.set_seed(7);
  SegmentSpec* linear = spec.add_segments();
  linear->set_name("linear");
  linear->set_dim(1);
  *linear->mutable_optimizer() = OptimizerNamed("ftrl");
  SegmentSpec* embedding = spec.add_segments();
  embedding->set_name("embedding");
  embedding->set_dim(dim);
  embedding->set_init(0.1);
  *embedding->mutable_optimizer() = OptimizerNamed(optimizer);
  return spec;
}

inline std::unique_ptr<EmbeddingTable> OpenTable(const TableSpec& spec,
                                                 const std::string& scratch = "") {
  auto table = EmbeddingTable::Open(spec, {.scratch_dir = scratch});
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

// The weights of `ids`, created at `time` if they are admitted.
inline std::vector<float> CreateRows(EmbeddingTable* table, const std::vector<uint64_t>& ids,
                                     int64_t time = 0) {
  std::vector<float> weights(ids.size() * table->width(), -1.0f);
  std::vector<int64_t> times(ids.size(), time);
  absl::Status status = table->LookupOrCreate(ids, {}, times, weights);
  EXPECT_TRUE(status.ok()) << status;
  return weights;
}
inline std::vector<float> LookRows(const EmbeddingTable& table, const std::vector<uint64_t>& ids) {
  std::vector<float> weights(ids.size() * table.width(), -1.0f);
  absl::Status status = table.Lookup(ids, weights);
  EXPECT_TRUE(status.ok()) << status;
  return weights;
}

// `count` different ids, the n-th always the same, ordered by (bucket, id).
inline std::vector<uint64_t> MakeIds(int begin, int count) {
  std::vector<uint64_t> ids;
  for (int i = 0; i < count; ++i) ids.push_back(HashInt64(begin + i, 1));
  std::sort(ids.begin(), ids.end(), IdBefore);
  return ids;
}

}  // namespace starling
