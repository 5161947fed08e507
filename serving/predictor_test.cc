#include "serving/predictor.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>

#include "embedding_store/embedding_table.h"
#include "serving/test_bundle.h"

namespace starling {
namespace {

using ::testing::HasSubstr;

// One row, as a person would write it down.
struct Sample {
  int64_t user;
  std::string item;  // "" is null.
  std::vector<std::string> tags;
  double price;  // Negative is null.
  double age;
};

// Rows of all kinds: known and unknown ids, nulls, empty and repeated tags.
std::vector<Sample> Samples(int n) {
  std::vector<Sample> samples;
  for (int i = 0; i < n; ++i) {
    Sample s;
    s.user = static_cast<int64_t>(RandomBelow(1, i, 150));
    s.item = i % 7 == 0 ? "" : absl::StrCat("item", RandomBelow(2, i, 150));
    for (int k = 0; k < i % 4; ++k) {
      s.tags.push_back(absl::StrCat("tag", RandomBelow(3, 4 * i + k, 120)));
    }
    s.price = i % 5 == 0 ? -1 : 100 * RandomUniform(4, i);
    s.age = RandomUniform(5, i);
    samples.push_back(std::move(s));
  }
  return samples;
}

Column NewColumn(const std::string& name, ColumnType type, size_t rows) {
  Column c;
  c.name = name;
  c.type = type;
  c.rows = static_cast<int64_t>(rows);
  c.valid.assign(rows, 1);
  return c;
}

// Views into `samples`, which must outlive the columns.
ColumnBatch Columns(const std::vector<Sample>& samples) {
  size_t n = samples.size();
  Column user = NewColumn("user", ColumnType::kInt64, n);
  Column item = NewColumn("item", ColumnType::kString, n);
  Column tags = NewColumn("tags", ColumnType::kString, n);
  Column price = NewColumn("price", ColumnType::kDouble, n);
  Column age = NewColumn("age", ColumnType::kDouble, n);
  tags.is_list = true;
  tags.list_offsets.push_back(0);
  for (size_t i = 0; i < n; ++i) {
    const Sample& s = samples[i];
    user.ints.push_back(s.user);
    item.strings.push_back(s.item);
    item.valid[i] = !s.item.empty();
    for (const std::string& tag : s.tags) tags.strings.push_back(tag);
    tags.list_offsets.push_back(static_cast<int32_t>(tags.strings.size()));
    price.doubles.push_back(s.price);
    price.valid[i] = s.price >= 0;
    age.doubles.push_back(s.age);
  }
  ColumnBatch batch;
  batch.rows = static_cast<int64_t>(n);
  batch.columns = {user, item, tags, price, age};
  return batch;
}

// A table's part of a batch, from the ids of every (slot, row).
TableIds MakeTable(const std::vector<std::vector<std::vector<uint64_t>>>& slots) {
  TableIds table;
  for (const auto& slot : slots) {
    for (const auto& row : slot) table.ids.insert(table.ids.end(), row.begin(), row.end());
  }
  std::sort(table.ids.begin(), table.ids.end(), IdBefore);
  table.ids.erase(std::unique(table.ids.begin(), table.ids.end()), table.ids.end());
  for (const auto& rows : slots) {
    Slot slot;
    slot.offsets.push_back(0);
    for (const auto& row : rows) {
      for (uint64_t id : row) {
        auto at = std::lower_bound(table.ids.begin(), table.ids.end(), id, IdBefore);
        slot.index.push_back(static_cast<uint32_t>(at - table.ids.begin()));
        slot.weights.push_back(1.0f / static_cast<float>(row.size()));
      }
      slot.offsets.push_back(static_cast<uint32_t>(slot.index.size()));
    }
    table.slots.push_back(std::move(slot));
  }
  return table;
}

Batch MakeBatch(const std::vector<Sample>& samples) {
  Batch batch;
  batch.rows = batch.requests = static_cast<uint32_t>(samples.size());
  std::vector<std::vector<uint64_t>> users, items, tags;
  for (const Sample& s : samples) {
    users.push_back({HashInt64(s.user, VocabularySeed("user"))});
    items.push_back({});
    if (!s.item.empty()) items.back().push_back(HashBytes(s.item, VocabularySeed("item")));
    tags.push_back({});
    for (const std::string& t : s.tags) tags.back().push_back(HashBytes(t, VocabularySeed("tags")));
    batch.dense.push_back(static_cast<float>(s.price < 0 ? 0.0 : std::log1p(s.price)));
    batch.dense.push_back(static_cast<float>(s.age));
  }
  batch.tables = {MakeTable({users}), MakeTable({items, tags})};
  return batch;
}

// The network over rows that `lookup(table, ids)` gives, with no bundle in between.
using RowsOfIds = std::function<std::vector<float>(int, const std::vector<uint64_t>&)>;
std::vector<float> ScoresOver(const BundleSpec& spec, const std::vector<Sample>& samples,
                              const RowsOfIds& lookup) {
  Batch batch = MakeBatch(samples);
  std::vector<std::vector<float>> rows;
  for (int t = 0; t < 2; ++t) rows.push_back(lookup(t, batch.tables[t].ids));
  auto network = Network::Create(spec.graph, NetworkOptions());
  EXPECT_TRUE(network.ok()) << network.status();
  auto workspace = (*network)->NewWorkspace();
  ThreadPool pool(1);
  std::vector<float> scores(samples.size());
  std::vector<std::span<const float>> spans = {rows[0], rows[1]};
  absl::Status status =
      (*network)->Score(batch, spans, TestDense(spec), &pool, workspace.get(), scores);
  EXPECT_TRUE(status.ok()) << status;
  return scores;
}

// With rows taken from the truth.
std::vector<float> DirectScores(uint64_t version, const std::vector<Sample>& samples) {
  return ScoresOver(TestSpec(version), samples, [&](int t, const std::vector<uint64_t>& ids) {
    const std::vector<uint64_t> known = TestIds(t);
    std::vector<float> rows;
    for (uint64_t id : ids) {
      bool is_known = std::binary_search(known.begin(), known.end(), id, IdBefore);
      std::vector<float> row = is_known ? TestRow(version, id) : std::vector<float>(5, 0.0f);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    return rows;
  });
}

std::unique_ptr<Predictor> LoadPredictor(const std::string& name, uint64_t version) {
  std::string dir = TestDir(name);
  EXPECT_TRUE(WriteTestBundle(dir, version).ok());
  auto bundle = Bundle::Load(dir);
  EXPECT_TRUE(bundle.ok()) << bundle.status();
  auto predictor = Predictor::Create(*std::move(bundle));
  EXPECT_TRUE(predictor.ok()) << predictor.status();
  return *std::move(predictor);
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(PredictorTest, EqualsTheNetworkOverHandMadeRowsBitForBit) {
  auto predictor = LoadPredictor("direct", 5);
  std::vector<Sample> samples = Samples(1000);
  auto scores = predictor->Predict(Columns(samples), nullptr);
  ASSERT_TRUE(scores.ok()) << scores.status();
  std::vector<float> direct = DirectScores(5, samples);
  for (size_t i = 0; i < samples.size(); ++i) {
    ASSERT_EQ((*scores)[i], direct[i]) << i;
    ASSERT_GT(direct[i], 0.0f);
    ASSERT_LT(direct[i], 1.0f);
  }
  EXPECT_NE((*scores)[1], (*scores)[2]);
}

TEST(PredictorTest, ARowsScoreDoesNotDependOnTheRowsAroundIt) {
  auto predictor = LoadPredictor("chunks", 6);
  std::vector<Sample> samples = Samples(10000);
  auto all = predictor->Predict(Columns(samples), nullptr);
  ASSERT_TRUE(all.ok()) << all.status();
  for (size_t part : {1, 2, 3, 255, 4095, 4097}) {
    std::vector<float> pieces;
    size_t n = std::min<size_t>(samples.size(), part * 300);
    for (size_t begin = 0; begin < n; begin += part) {
      size_t end = std::min(n, begin + part);
      std::vector<Sample> piece(samples.begin() + begin, samples.begin() + end);
      auto scores = predictor->Predict(Columns(piece), nullptr);
      ASSERT_TRUE(scores.ok()) << scores.status();
      pieces.insert(pieces.end(), scores->begin(), scores->end());
    }
    EXPECT_TRUE(SameBits(pieces, std::vector<float>(all->begin(), all->begin() + n))) << part;
  }
}

TEST(PredictorTest, BadRowsAreNaNAndTheOthersKeepTheirScore) {
  auto predictor = LoadPredictor("bad_rows", 7);
  std::vector<Sample> samples = Samples(5000);
  auto good = predictor->Predict(Columns(samples), nullptr);
  ASSERT_TRUE(good.ok()) << good.status();
  for (int row : {3, 4096, 4999}) {
    samples[row].age = row == 3 ? std::numeric_limits<double>::quiet_NaN()
                                : std::numeric_limits<double>::infinity();
  }
  std::vector<BadRow> bad;
  auto scores = predictor->Predict(Columns(samples), &bad);
  ASSERT_TRUE(scores.ok()) << scores.status();
  ASSERT_EQ(bad.size(), 3u);
  EXPECT_EQ(bad[1].row, 4096);
  EXPECT_EQ(bad[1].column, "age");
  for (int row : {3, 4096, 4999}) {
    EXPECT_TRUE(std::isnan((*scores)[row]));
    (*scores)[row] = (*good)[row];
  }
  EXPECT_TRUE(SameBits(*scores, *good));

  absl::Status refused = predictor->Predict(Columns(samples), nullptr).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("row 3"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("age"));
}

// Tables of part rows, trained a little, then exported: a score over the bundle
// is a score over the tables.
TEST(PredictorTest, RowsThatIdsShareAreCombinedAsInTraining) {
  for (auto combine : {MultiHashOptions::ADD, MultiHashOptions::MULTIPLY}) {
    BundleSpec spec = TestSpec(3);
    std::vector<std::unique_ptr<EmbeddingTable>> tables;
    for (int t = 0; t < 2; ++t) {
      TableOptions& options = *spec.tables.mutable_tables(t)->mutable_options();
      options.set_tier(TableOptions::MEMORY);
      options.mutable_multi_hash()->set_rows(30);
      options.mutable_multi_hash()->set_combine(combine);
      spec.tables.mutable_tables(t)->mutable_segments(1)->set_init(0.3);
      tables.push_back(*EmbeddingTable::Open(spec.tables.tables(t), {}));
      const std::vector<uint64_t> ids = TestIds(t);
      std::vector<float> weights(ids.size() * 5), grads(ids.size() * 5, 0.2f);
      ASSERT_TRUE(tables[t]->LookupOrCreate(ids, {}, {}, weights).ok());
      ASSERT_TRUE(tables[t]->ApplyGradients(ids, grads, 1).ok());
    }
    const std::string dir = TestDir(absl::StrCat("hashed", combine));
    ASSERT_TRUE(WriteBundle(dir, spec, TestDense(spec), [&](int t, const auto& emit) {
                  absl::Status status;
                  EXPECT_TRUE(tables[t]
                                  ->ForEach([&](uint64_t id, const RowMeta&, auto floats) {
                                    status.Update(emit(RowRecord{.id = id, .floats = floats}));
                                  })
                                  .ok());
                  return status;
                }).ok());
    auto predictor = Predictor::Create(*Bundle::Load(dir));
    ASSERT_TRUE(predictor.ok()) << predictor.status();
    EXPECT_LE((*predictor)->bundle().rows(0), 60);
    const std::vector<Sample> samples = Samples(500);
    auto scores = (*predictor)->Predict(Columns(samples), nullptr);
    ASSERT_TRUE(scores.ok()) << scores.status();
    EXPECT_TRUE(
        SameBits(*scores, ScoresOver(spec, samples, [&](int t, const std::vector<uint64_t>& ids) {
          std::vector<float> rows(ids.size() * 5);
          EXPECT_TRUE(tables[t]->Lookup(ids, rows).ok());
          return rows;
        })));
    EXPECT_NE((*scores)[1], (*scores)[2]);
  }
}

TEST(PredictorTest, NoRowsGiveNoScores) {
  auto predictor = LoadPredictor("no_rows_in", 1);
  auto scores = predictor->Predict(Columns({}), nullptr);
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_TRUE(scores->empty());
}

TEST(PredictorTest, ManyThreadsGetTheSameScores) {
  auto predictor = LoadPredictor("threads", 8);
  std::vector<Sample> samples = Samples(700);
  ColumnBatch columns = Columns(samples);
  std::vector<float> want = DirectScores(8, samples);
  std::vector<std::thread> threads;
  std::vector<int> equal(6, 0);
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        auto scores = predictor->Predict(columns, nullptr);
        if (scores.ok() && SameBits(*scores, want)) ++equal[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, std::vector<int>(6, 10));
}

TEST(PredictorTest, DenseParametersOfAnotherGraphAreRefused) {
  std::string dir = TestDir("wrong_dense");
  BundleSpec spec = TestSpec(1);
  std::vector<float> dense = TestDense(spec);
  dense.pop_back();
  ASSERT_TRUE(WriteBundle(dir, spec, dense, TestRows(1)).ok());
  auto predictor = Predictor::Create(*Bundle::Load(dir));
  EXPECT_TRUE(absl::IsDataLoss(predictor.status())) << predictor.status();
}

}  // namespace
}  // namespace starling
