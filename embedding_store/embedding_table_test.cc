// One conformance suite for every tier and optimiser: random operations from a
// printed seed against a model that is a std::map and plain optimiser steps.
#include "embedding_store/embedding_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "base/thread_pool.h"
#include "embedding_store/table_test_util.h"

namespace starling {
namespace {

// The promises of a table, without tiers or budgets.
class Model {
 public:
  explicit Model(const TableSpec& spec)
      : layout_(*RowLayout::Create(spec)),
        seed_(TableSeed(spec)),
        ttl_(spec.options().evict().ttl()) {}

  struct Row {
    RowMeta meta;
    std::vector<float> floats;
  };
  std::vector<float> Lookup(uint64_t id) const {
    auto it = rows.find(id);
    if (it == rows.end()) return std::vector<float>(layout_.width(), 0.0f);
    return {it->second.floats.begin(), it->second.floats.begin() + layout_.width()};
  }
  void Create(uint64_t id, uint32_t count, int64_t time) {
    auto it = rows.find(id);
    if (it != rows.end() && ttl_ > 0 && time - it->second.meta.event_time > ttl_) rows.erase(it);
    Row& row = rows[id];
    if (row.floats.empty()) {
      row.floats.resize(layout_.floats());
      layout_.InitRow(seed_, id, row.floats);
    }
    row.meta.frequency += count;
    row.meta.event_time = std::max(row.meta.event_time, time);
  }
  void Apply(uint64_t id, std::span<const float> grad, float lr_scale) {
    auto it = rows.find(id);
    if (it == rows.end()) return;
    std::span<float> row = it->second.floats;
    for (const Segment& s : layout_.segments()) {
      s.optimizer->Step(lr_scale, row.subspan(s.weight_offset, s.dim),
                        row.subspan(layout_.width() + s.state_offset, s.state_size),
                        grad.subspan(s.weight_offset, s.dim));
    }
  }
  // True if the sweeper may have taken the row.
  bool Doomed(uint64_t id) const {
    auto it = rows.find(id);
    return it != rows.end() && ttl_ > 0 && now - it->second.meta.event_time > ttl_;
  }
  std::map<uint64_t, Row> rows;
  int64_t now = 0;  // Latest event time of the last call that brought one.

 private:
  RowLayout layout_;
  uint64_t seed_;
  double ttl_;
};

// Takes from the model what the sweeper took from the table. Only rows that
// are due may go, so what is left must be equal.
void FollowSweeper(const EmbeddingTable& table, Model* model) {
  std::set<uint64_t> left;
  ASSERT_OK(
      table.ForEach([&](uint64_t id, const RowMeta&, std::span<const float>) { left.insert(id); }));
  std::erase_if(model->rows, [&](const auto& row) {
    return model->Doomed(row.first) && !left.contains(row.first);
  });
}

// Every row of the table equals the model's, and they come by (bucket, id).
void ExpectSame(const EmbeddingTable& table, const Model& model) {
  std::vector<uint64_t> seen;
  ASSERT_OK(table.ForEach([&](uint64_t id, const RowMeta& meta, std::span<const float> floats) {
    seen.push_back(id);
    auto it = model.rows.find(id);
    ASSERT_NE(it, model.rows.end()) << "id " << id << " should be unknown";
    EXPECT_EQ(it->second.floats, std::vector<float>(floats.begin(), floats.end())) << id;
    EXPECT_EQ(it->second.meta.frequency, meta.frequency) << id;
    EXPECT_EQ(it->second.meta.event_time, meta.event_time) << id;
  }));
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end(), IdBefore));
  EXPECT_EQ(seen.size(), model.rows.size());
  EXPECT_EQ(table.rows(), static_cast<int64_t>(model.rows.size()));
}

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

class EmbeddingTableTest : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  bool cold() const { return std::get<0>(GetParam()) == "rocksdb"; }
  TableSpec Spec() const {
    TableSpec spec = MakeSpec(std::get<1>(GetParam()));
    if (cold()) {
      spec.mutable_options()->set_tier(TableOptions::ROCKSDB);
      spec.mutable_options()->set_memory(kTinyMemory);
    }
    return spec;
  }
  std::unique_ptr<EmbeddingTable> Open(const TableSpec& spec, ThreadPool* pool = nullptr) {
    static int scratch = 0;
    auto table = EmbeddingTable::Open(
        spec, {.scratch_dir = dir_.File(absl::StrCat("scratch", scratch++)), .pool = pool});
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
};

INSTANTIATE_TEST_SUITE_P(Tiers, EmbeddingTableTest,
                         testing::Combine(testing::Values("memory", "rocksdb"),
                                          testing::Values("sgd", "adagrad", "adam", "ftrl")),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param);
                         });

TEST_P(EmbeddingTableTest, RandomOperationsEqualTheModel) {
  const uint64_t seed = 20240601;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  TableSpec spec = Spec();
  // Cold rows are swept in the background, so what is left would be a matter of time.
  if (!cold()) spec.mutable_options()->mutable_evict()->set_ttl(60);
  std::unique_ptr<EmbeddingTable> table = Open(spec);
  Model model(spec);
  const int width = table->width();
  uint64_t draw = 0;
  auto random = [&](uint64_t n) { return RandomBelow(seed, draw++, n); };
  for (int step = 0; step < 120; ++step) {
    std::set<int> chosen;
    const uint64_t size = 1 + random(120);
    while (chosen.size() < size) chosen.insert(static_cast<int>(random(3000)));
    std::vector<uint64_t> ids;
    for (int i : chosen) ids.push_back(HashInt64(i, 1));
    if (random(2) == 0) std::sort(ids.begin(), ids.end(), IdBefore);
    std::vector<uint32_t> counts;
    std::vector<int64_t> times;
    std::vector<float> weights(ids.size() * width, -1), grads(weights.size());
    for (uint64_t id : ids) {
      counts.push_back(1 + id % 3);
      times.push_back(1000 + step + static_cast<int64_t>(random(5)));
    }
    for (float& g : grads) g = static_cast<float>(random(200)) / 100 - 1;
    FollowSweeper(*table, &model);
    const uint64_t op = random(20);
    if (op < 9) {
      ASSERT_OK(table->LookupOrCreate(ids, counts, times, weights));
      for (size_t i = 0; i < ids.size(); ++i) model.Create(ids[i], counts[i], times[i]);
      model.now = *std::max_element(times.begin(), times.end());
    } else if (op < 16) {
      ASSERT_OK(table->ApplyGradients(ids, grads, 0.5f));
      for (size_t i = 0; i < ids.size(); ++i) {
        model.Apply(ids[i], std::span(grads).subspan(i * width, width), 0.5f);
      }
    } else if (op < 17) {
      ASSERT_OK(table->Erase(ids));
      for (uint64_t id : ids) model.rows.erase(id);
    } else if (op < 18) {
      table->Prefetch(ids);
    }
    if (op >= 9) ASSERT_OK(table->Lookup(ids, weights));
    FollowSweeper(*table, &model);
    for (size_t i = 0; i < ids.size(); ++i) {
      std::vector<float> row(weights.begin() + i * width, weights.begin() + (i + 1) * width);
      ASSERT_EQ(row, model.Lookup(ids[i])) << "step " << step << " op " << op << " id " << ids[i];
    }
    if (step % 20 == 19) {
      FollowSweeper(*table, &model);
      ExpectSame(*table, model);
    }
  }
  FollowSweeper(*table, &model);
  ExpectSame(*table, model);
  TableStats stats = table->stats();
  EXPECT_EQ(stats.expired + stats.evicted > 0, !cold());
  EXPECT_EQ(stats.demoted > 0, cold());
  EXPECT_EQ(stats.promoted > 0, cold());
  EXPECT_EQ(stats.rows_cold > 0, cold());
}

TEST_P(EmbeddingTableTest, UnknownIdReadsAsZerosAndStaysUnknown) {
  auto table = Open(Spec());
  std::vector<uint64_t> ids = MakeIds(0, 100);
  std::vector<float> weights(ids.size() * table->width(), 7.0f);
  ASSERT_OK(table->Lookup(ids, weights));
  EXPECT_EQ(weights, std::vector<float>(weights.size(), 0.0f));
  EXPECT_EQ(table->rows(), 0);
  EXPECT_EQ(table->stats().misses, 100);
}

TEST_P(EmbeddingTableTest, GradientForUnknownIdChangesNoRow) {
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

TEST_P(EmbeddingTableTest, SnapshotRestoresIntoOneAndIntoThreeShards) {
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

TEST_P(EmbeddingTableTest, ThreadsDoNotChangeTheResult) {
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
