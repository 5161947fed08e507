// One conformance suite for every tier, optimiser and dtype: random operations
// from a printed seed against a TableModel. STARLING_SEED replaces the seed and
// STARLING_ROUNDS the number of operations; docs/architecture.md has the long form.
#include "embedding_store/embedding_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "embedding_store/table_model.h"
#include "embedding_store/table_test_util.h"

namespace starling {
namespace {

struct Config {
  TableOptions::Tier tier;
  std::string optimizer;
  TableOptions::Dtype dtype = TableOptions::FP32;
  int dim = 5;
  int ids = 3000;  // Different ids that operations draw from.

  bool cold() const { return tier == TableOptions::ROCKSDB; }
  TableSpec Spec() const {
    TableSpec spec = MakeSpec(optimizer, dim);
    spec.mutable_options()->set_tier(tier);
    spec.mutable_options()->set_dtype(dtype);
    spec.mutable_options()->set_memory(cold() ? kTinyMemory : 64 << 20);
    return spec;
  }
};

// Every optimiser on both tiers; every dtype likewise, with two of them; and a
// table of which about one per cent fits in memory.
std::vector<Config> Configs() {
  std::vector<Config> configs;
  for (auto tier : {TableOptions::MEMORY, TableOptions::ROCKSDB}) {
    for (const std::string& name : OptimizerRules()) configs.push_back({tier, name});
    for (auto dtype : {TableOptions::FP16, TableOptions::BF16, TableOptions::INT8}) {
      for (const char* name : {"adagrad", "adam"}) configs.push_back({tier, name, dtype});
    }
  }
  configs.push_back({TableOptions::ROCKSDB, "adagrad", TableOptions::FP32, 256, 10'000});
  return configs;
}

std::string NameOf(const testing::TestParamInfo<Config>& info) {
  const Config& c = info.param;
  return absl::StrCat(TableOptions::Tier_Name(c.tier), "_", c.optimizer, "_",
                      TableOptions::Dtype_Name(c.dtype), c.dim > 5 ? "_OnePerCent" : "");
}

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

class EmbeddingTableTest : public testing::TestWithParam<Config> {
 protected:
  bool cold() const { return GetParam().cold(); }
  TableSpec Spec() const { return GetParam().Spec(); }
  std::unique_ptr<EmbeddingTable> Open(const TableSpec& spec, ThreadPool* pool = nullptr) {
    auto table = EmbeddingTable::Open(
        spec, {.scratch_dir = dir_.File(absl::StrCat("scratch", scratch_++)), .pool = pool});
    EXPECT_TRUE(table.ok()) << table.status();
    return *std::move(table);
  }
  // Creates the rows, and gives each a step of gradient 0.5.
  void Fill(EmbeddingTable* table, const std::vector<uint64_t>& ids) {
    std::vector<float> weights(ids.size() * table->width());
    std::vector<float> grads(weights.size(), 0.5f);
    ASSERT_OK(table->LookupOrCreate(ids, {}, {}, weights));
    ASSERT_OK(table->ApplyGradients(ids, grads, 1.0f));
  }
  TestDir dir_;
  int scratch_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Every, EmbeddingTableTest, testing::ValuesIn(Configs()), NameOf);

// Promises that do not depend on the rule: one of them, on every tier and dtype.
class EmbeddingTableOneRuleTest : public EmbeddingTableTest {};
std::vector<Config> OneRule() {
  std::vector<Config> configs = Configs();
  std::erase_if(configs, [](const Config& c) { return c.optimizer != "adagrad" || c.dim > 5; });
  return configs;
}
INSTANTIATE_TEST_SUITE_P(OneRule, EmbeddingTableOneRuleTest, testing::ValuesIn(OneRule()), NameOf);

// ---- Random operations ----

// A table and its model, side by side.
class Pair {
 public:
  using OpenTable = std::function<std::unique_ptr<EmbeddingTable>()>;
  Pair(const TableSpec& spec, int ids, uint64_t seed, const TestDir& dir, OpenTable open)
      : ids_max_(ids), seed_(seed), dir_(dir), open_(std::move(open)), model_(spec) {
    table_ = open_();
    width_ = table_->width();
  }

  // One random operation, and a look at the rows it named.
  void Operate(int step);
  // Every row of the table equals the model's, and they come by (bucket, id).
  void ExpectSame(const EmbeddingTable& table, const TableModel& model) const;
  void ExpectSame() {
    FollowSweeper();
    ExpectSame(*table_, model_);
  }
  void FinishSnapshot();
  // Gives every id a row.
  void CreateAll();
  // Counted over all tables that took the place of the first.
  int64_t demoted() const { return demoted_ + table_->stats().demoted; }
  int64_t promoted() const { return promoted_ + table_->stats().promoted; }
  int64_t gone() const { return gone_ + table_->stats().expired + table_->stats().evicted; }
  int restored() const { return restored_; }
  const EmbeddingTable& table() const { return *table_; }

 private:
  uint64_t Random(uint64_t n) { return RandomBelow(seed_, draw_++, n); }
  std::vector<uint64_t> RandomIds();
  std::vector<float> RandomFloats(size_t n) {
    std::vector<float> floats(n);
    for (float& f : floats) f = static_cast<float>(Random(200)) / 100 - 1;
    return floats;
  }
  void Create(int step, const std::vector<uint64_t>& ids, std::span<float> weights);
  std::vector<uint32_t> LastPlaces(const std::vector<uint64_t>& ids);
  void Change(uint64_t op, const std::vector<uint64_t>& ids);
  void StartSnapshot();
  // Takes from the model what the sweeper took from the table. Only rows that
  // are due may go, so what is left must be equal.
  void FollowSweeper();

  const int ids_max_;
  const uint64_t seed_;
  const TestDir& dir_;
  const OpenTable open_;
  uint64_t draw_ = 0;
  int width_ = 0;
  std::unique_ptr<EmbeddingTable> table_;
  TableModel model_;
  // The snapshot under way, the model at its instant, and what a restore reads.
  std::unique_ptr<TableSnapshot> snapshot_;
  std::unique_ptr<TableModel> at_instant_;
  std::vector<FileSetEntry> files_;
  uint32_t epoch_ = 0;
  std::map<uint64_t, uint32_t> places_;  // Where rows were, perhaps long ago or in another table.
  int snapshots_ = 0, restored_ = 0;
  int64_t demoted_ = 0, promoted_ = 0, gone_ = 0;
};

std::vector<uint64_t> Pair::RandomIds() {
  std::set<int> chosen;
  const uint64_t size = Random(30) == 0 ? 0 : 1 + Random(ids_max_ / 20);
  while (chosen.size() < size) chosen.insert(static_cast<int>(Random(ids_max_)));
  std::vector<uint64_t> ids;
  for (int i : chosen) ids.push_back(HashInt64(i, 1));
  if (Random(2) == 0) std::sort(ids.begin(), ids.end(), IdBefore);
  return ids;
}

void Pair::CreateAll() {
  for (int begin = 0; begin < ids_max_; begin += 1000) {
    std::vector<uint64_t> ids = MakeIds(begin, std::min(1000, ids_max_ - begin));
    std::vector<float> weights(ids.size() * width_);
    ASSERT_OK(table_->LookupOrCreate(ids, {}, {}, weights));
    for (uint64_t id : ids) model_.Create(id, 1, 0);
  }
}

void Pair::Create(int step, const std::vector<uint64_t>& ids, std::span<float> weights) {
  std::vector<uint32_t> counts;
  std::vector<int64_t> times;
  const bool counted = Random(4) != 0, timed = Random(4) != 0;
  for (size_t i = 0; counted && i < ids.size(); ++i) {
    counts.push_back(Random(50) == 0 ? 0xFFFFFFFF : static_cast<uint32_t>(1 + Random(3)));
  }
  for (size_t i = 0; timed && i < ids.size(); ++i) {
    times.push_back(Random(20) == 0 ? 0 : 1000 + step + static_cast<int64_t>(Random(5)));
  }
  std::vector<uint32_t> places(Random(4) == 0 ? 0 : ids.size(), 12345);
  ASSERT_OK(table_->LookupOrCreate(ids, counts, times, weights, places));
  for (size_t i = 0; i < places.size(); ++i) places_[ids[i]] = places[i];
  for (size_t i = 0; i < ids.size(); ++i) {
    model_.Create(ids[i], counted ? counts[i] : 1, timed ? times[i] : 0);
  }
  const int64_t latest = times.empty() ? 0 : *std::max_element(times.begin(), times.end());
  if (latest > 0) model_.now = latest;
}

// Most of them hold still, unless the tier is small; none at all, at times.
std::vector<uint32_t> Pair::LastPlaces(const std::vector<uint64_t>& ids) {
  std::vector<uint32_t> places;
  if (Random(4) == 0) return places;
  for (uint64_t id : ids) places.push_back(places_[id]);
  return places;
}

void Pair::Change(uint64_t op, const std::vector<uint64_t>& ids) {
  const std::vector<float> floats = RandomFloats(ids.size() * width_);
  auto row = [&](size_t i) { return std::span(floats).subspan(i * width_, width_); };
  if (op < 6) {
    const float lr_scale = 0.25f * static_cast<float>(1 + Random(5));
    ASSERT_OK(table_->ApplyGradients(ids, floats, lr_scale, LastPlaces(ids)));
    for (size_t i = 0; i < ids.size(); ++i) model_.Apply(ids[i], row(i), lr_scale);
  } else if (op < 8) {
    ASSERT_OK(table_->ApplyDeltas(ids, floats));
    for (size_t i = 0; i < ids.size(); ++i) model_.AddDelta(ids[i], row(i));
  } else if (op < 9) {
    ASSERT_OK(table_->Erase(ids));
    for (uint64_t id : ids) model_.rows.erase(id);
  } else if (op < 10) {
    table_->Prefetch(ids);
  }
}

void Pair::Operate(int step) {
  const std::vector<uint64_t> ids = RandomIds();
  std::vector<float> weights(ids.size() * width_, -1.0f);
  FollowSweeper();
  const uint64_t op = Random(20);
  if (op < 9) {
    ASSERT_NO_FATAL_FAILURE(Create(step, ids, weights));
  } else {
    ASSERT_NO_FATAL_FAILURE(Change(op - 9, ids));
    FollowSweeper();
    if (op == 19) {
      ASSERT_NO_FATAL_FAILURE(snapshot_ != nullptr ? FinishSnapshot() : StartSnapshot());
    }
    ASSERT_OK(table_->Lookup(ids, weights));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::vector<float> row(&weights[i * width_], &weights[i * width_] + width_);
    ASSERT_EQ(row, model_.Weights(ids[i])) << "step " << step << " op " << op << " id " << ids[i];
  }
}

void Pair::StartSnapshot() {
  SnapshotOptions options;
  if (epoch_ > 0 && Random(2) == 0) options.since = epoch_;
  if (options.since == 0) files_.clear();
  const std::string path = dir_.File(absl::StrCat("s", snapshots_++));
  auto started = table_->StartSnapshot(path, options);
  ASSERT_OK(started.status());
  snapshot_ = *std::move(started);
  at_instant_ = std::make_unique<TableModel>(model_);
}

// Restores into a new table, which takes the place of this one every other time.
void Pair::FinishSnapshot() {
  auto names = snapshot_->Wait();
  ASSERT_OK(names.status());
  epoch_ = snapshot_->epoch();
  snapshot_.reset();
  const size_t earlier = files_.size();
  files_.insert(files_.end(), names->begin(), names->end());
  std::unique_ptr<EmbeddingTable> restored = open_();
  for (size_t f = 0; f < files_.size(); ++f) {
    ASSERT_OK(restored->Restore(
        dir_.File(files_[f].name), [](uint64_t) { return true; },
        f < earlier ? EmbeddingTable::Take::kRows : EmbeddingTable::Take::kAll));
  }
  ExpectSame(*restored, *at_instant_);
  if (Random(2) == 0) return;
  const TableStats stats = table_->stats();
  demoted_ += stats.demoted;
  promoted_ += stats.promoted;
  gone_ += stats.expired + stats.evicted;
  ++restored_;
  table_ = std::move(restored);
  model_ = *at_instant_;
  model_.now = 0;  // The clock is no part of a snapshot.
}

void Pair::FollowSweeper() {
  if (model_.now == 0 || !table_->spec().options().evict().has_ttl()) return;
  std::set<uint64_t> left;
  ASSERT_OK(table_->ForEach(
      [&](uint64_t id, const RowMeta&, std::span<const float>) { left.insert(id); }));
  std::erase_if(model_.rows, [&](const auto& row) {
    return model_.Due(row.first) && !left.contains(row.first);
  });
}

void Pair::ExpectSame(const EmbeddingTable& table, const TableModel& model) const {
  std::vector<uint64_t> seen;
  ASSERT_OK(table.ForEach([&](uint64_t id, const RowMeta& meta, std::span<const float> floats) {
    seen.push_back(id);
    auto it = model.rows.find(id);
    ASSERT_NE(it, model.rows.end()) << "id " << id << " should be unknown";
    EXPECT_EQ(model.Floats(it->second), std::vector<float>(floats.begin(), floats.end())) << id;
    EXPECT_EQ(it->second.frequency, meta.frequency) << id;
    EXPECT_EQ(it->second.event_time, meta.event_time) << id;
  }));
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end(), IdBefore));
  EXPECT_EQ(seen.size(), model.rows.size());
  EXPECT_EQ(table.rows(), static_cast<int64_t>(model.rows.size()));
}

TEST_P(EmbeddingTableTest, RandomOperationsEqualTheModel) {
  constexpr uint64_t kOwnSeed = 20240601;
  const uint64_t seed = FromEnvironment("STARLING_SEED", kOwnSeed);
  const auto rounds = static_cast<int>(FromEnvironment("STARLING_ROUNDS", 60));
  SCOPED_TRACE(absl::StrCat("STARLING_SEED=", seed, " STARLING_ROUNDS=", rounds));
  TableSpec spec = Spec();
  if (!cold()) {
    // Cold rows are swept in the background, so what is left would be a matter
    // of time; and the smallest budgets have no room for so many counters.
    spec.mutable_options()->mutable_evict()->set_ttl(40);
    if (seed % 2 == 1) spec.mutable_options()->mutable_admit()->set_exact_count(2);
  }
  ThreadPool pool(2);
  Pair pair(spec, GetParam().ids, seed, dir_,
            [&] { return Open(spec, seed % 3 == 0 ? &pool : nullptr); });
  if (cold()) {
    ASSERT_NO_FATAL_FAILURE(pair.CreateAll());
  }
  for (int step = 0; step < rounds; ++step) {
    ASSERT_NO_FATAL_FAILURE(pair.Operate(step));
    if (step % 20 == 19) {
      ASSERT_NO_FATAL_FAILURE(pair.ExpectSame());
    }
    ASSERT_FALSE(HasFailure());
  }
  ASSERT_NO_FATAL_FAILURE(pair.ExpectSame());
  if (seed != kOwnSeed || rounds < 60) return;  // Another walk need not come by everything.
  EXPECT_EQ(pair.gone() > 0, !cold());
  EXPECT_EQ(pair.demoted() > 0, cold());
  EXPECT_EQ(pair.promoted() > 0, cold());
  EXPECT_EQ(pair.table().stats().rows_cold > 0, cold());
}

// ---- Promises, one at a time ----

// Frequency and floats of every row.
std::map<uint64_t, std::pair<uint32_t, std::vector<float>>> RowsOf(const EmbeddingTable& table) {
  std::map<uint64_t, std::pair<uint32_t, std::vector<float>>> rows;
  EXPECT_TRUE(table
                  .ForEach([&](uint64_t id, const RowMeta& meta, std::span<const float> f) {
                    rows[id] = {meta.frequency, {f.begin(), f.end()}};
                  })
                  .ok());
  return rows;
}

TEST_P(EmbeddingTableOneRuleTest, UnknownIdReadsAsZerosAndStaysUnknown) {
  auto table = Open(Spec());
  std::vector<uint64_t> ids = MakeIds(0, 100);
  std::vector<float> weights(ids.size() * table->width(), 7.0f);
  ASSERT_OK(table->Lookup(ids, weights));
  EXPECT_EQ(weights, std::vector<float>(weights.size(), 0.0f));
  EXPECT_EQ(table->rows(), 0);
  EXPECT_EQ(table->stats().misses, 100);
}

TEST(EmbeddingTableWidthTest, LookupReadsWhatTheRowHoldsAtEveryWidth) {
  for (int dim : {1, 4, 7, 8, 15, 16, 32, 40, 512}) {
    SCOPED_TRACE(dim);
    TableSpec spec = MakeSpec("adagrad", dim);
    spec.mutable_segments()->DeleteSubrange(0, 1);
    spec.mutable_options()->set_memory(64 << 20);
    auto table = EmbeddingTable::Open(spec, {});
    ASSERT_TRUE(table.ok()) << table.status();
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < 1500; ++i) ids.push_back(Mix64(i));  // In no order.
    std::vector<float> made(ids.size() * dim), read(made.size(), -1);
    ASSERT_EQ((*table)->LookupOrCreate(ids, {}, {}, made), absl::OkStatus());
    ASSERT_TRUE((*table)->Lookup(ids, read).ok());
    EXPECT_EQ(read, made);
    std::map<uint64_t, std::vector<float>> by_id;
    for (size_t i = 0; i < ids.size(); ++i) {
      by_id[ids[i]] = {made.begin() + i * dim, made.begin() + (i + 1) * dim};
    }
    std::sort(ids.begin(), ids.end(), IdBefore);
    ASSERT_TRUE((*table)->Lookup(ids, read).ok());
    for (size_t i = 0; i < ids.size(); ++i) {
      ASSERT_EQ(std::vector<float>(read.begin() + i * dim, read.begin() + (i + 1) * dim),
                by_id[ids[i]]);
    }
  }
}

TEST_P(EmbeddingTableOneRuleTest, GradientForUnknownIdChangesNoRow) {
  auto table = Open(Spec());
  std::vector<uint64_t> known = MakeIds(0, 50), unknown = MakeIds(1000, 50);
  Fill(table.get(), known);
  std::vector<float> before(known.size() * table->width()), after = before;
  ASSERT_OK(table->Lookup(known, before));
  ASSERT_OK(table->ApplyGradients(unknown, std::vector<float>(before.size(), 1.0f), 1.0f));
  ASSERT_OK(table->Lookup(known, after));
  EXPECT_EQ(before, after);
  EXPECT_EQ(table->rows(), 50);
}

TEST_P(EmbeddingTableOneRuleTest, SnapshotRestoresIntoOneAndIntoThreeShards) {
  auto table = Open(Spec());
  Fill(table.get(), MakeIds(0, 3000));
  const std::string path = dir_.File("all.rows");
  ASSERT_OK(SnapshotTo(table.get(), path));
  auto one = Open(Spec());
  ASSERT_OK(RestoreFrom(one.get(), path));
  EXPECT_EQ(RowsOf(*one), RowsOf(*table));
  auto joined = Open(Spec());
  std::map<uint64_t, std::pair<uint32_t, std::vector<float>>> all;
  for (uint64_t shard = 0; shard < 3; ++shard) {
    auto part = Open(Spec());
    ASSERT_OK(RestoreFrom(part.get(), path,
                          [&](uint64_t id) { return BucketOf(id) * 3 / kBuckets == shard; }));
    EXPECT_GT(part->rows(), 500);
    all.merge(RowsOf(*part));
    ASSERT_OK(SnapshotTo(part.get(), dir_.File("part.rows")));
    ASSERT_OK(RestoreFrom(joined.get(), dir_.File("part.rows")));
  }
  EXPECT_EQ(all, RowsOf(*table));
  EXPECT_EQ(RowsOf(*joined), RowsOf(*table));
}

TEST_P(EmbeddingTableOneRuleTest, ThreadsDoNotChangeTheResult) {
  ThreadPool pool(4);
  auto alone = Open(Spec()), threaded = Open(Spec(), &pool);
  std::vector<uint64_t> ids = MakeIds(0, 6000);
  for (int round = 0; round < 2; ++round) {
    Fill(alone.get(), ids);
    Fill(threaded.get(), ids);
  }
  EXPECT_EQ(RowsOf(*alone), RowsOf(*threaded));
}

}  // namespace
}  // namespace starling
