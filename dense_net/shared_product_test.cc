// Products that rows share give the plain form's numbers, by whatever batch.
#include "dense_net/shared_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dense_net/test_world.h"

namespace starling {
namespace {

void ExpectNear(const std::vector<float>& got, const std::vector<float>& want, const char* what) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 0;
  for (float x : want) largest = std::max<double>(largest, std::fabs(x));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 2e-6 * largest) << what << " " << i;
  }
}

void ExpectNear(const TrainResult& got, const TrainResult& want) {
  EXPECT_NEAR(got.loss, want.loss, 1e-6);
  ExpectNear(got.scores, want.scores, "scores");
  ExpectNear(got.param_grads, want.param_grads, "parameter gradients");
  for (size_t t = 0; t < want.row_grads.size(); ++t) {
    ExpectNear(got.row_grads[t], want.row_grads[t], "row gradients");
  }
}

class SharedProductTest : public testing::TestWithParam<const char*> {};

TEST_P(SharedProductTest, StepIsThePlainOne) {
  ThreadPool pool(2);
  for (bool requests : {false, true}) {
    World world = MakeWorld(GetParam(), {.rows = 301, .dim = 5, .ids = 40, .requests = requests});
    auto plain = MakeNetwork(world.spec, {.tile = 64, .sharing = Sharing::kNever});
    auto shared = MakeNetwork(world.spec, {.tile = 64, .sharing = Sharing::kWhereverPossible});
    const std::vector<float> params = RandomParams(*plain, 9);
    auto want = RunTrain(*plain, world, params), got = RunTrain(*shared, world, params, 5, &pool);
    ASSERT_TRUE(want.ok() && got.ok());
    EXPECT_NE(got->param_grads, want->param_grads) << "nothing was shared";
    ExpectNear(*got, *want);
    EXPECT_EQ(RunScore(*shared, world.batch, world.rows, params),
              RunScore(*plain, world.batch, world.rows, params));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, SharedProductTest,
    testing::Values("dnn { hidden: 17 hidden: 3 }", "deepfm { hidden: 16 hidden: 3 dropout: 0.2 }",
                    "wide_deep { hidden: 40 batch_norm: true }",
                    "dcnv2 { cross_layers: 2 hidden: 19 }",
                    "mmoe { experts: 2 expert { hidden: 18 } tower { hidden: 5 } "
                    "} | name: 'a' label: 'y0' | name: 'b' label: 'y1'"));

// An op that takes requests' columns from rows keeps them there (dcnv2, above); where all do
// without, what stands there in their place must not be seen.
class RequestsApartTest : public testing::TestWithParam<const char*> {};

TEST_P(RequestsApartTest, StepIsThePlainOne) {
  ThreadPool pool(2);
  for (const int dim : {5, 16}) {
    World world = MakeWorld(GetParam(), {.rows = 301, .dim = dim, .ids = 40, .requests = true});
    auto plain = MakeNetwork(world.spec, {.tile = 64, .sharing = Sharing::kNever});
    auto apart = MakeNetwork(world.spec, {.tile = 64, .sharing = Sharing::kWhereverPossible});
    const std::vector<float> params = RandomParams(*plain, 9);
    auto want = RunTrain(*plain, world, params), got = RunTrain(*apart, world, params, 5, &pool);
    ASSERT_TRUE(want.ok() && got.ok());
    EXPECT_NE(got->row_grads, want->row_grads) << "nothing was shared";
    ExpectNear(*got, *want);
  }
}

TEST_P(RequestsApartTest, TheFirstOpThatIsNotFiniteIsNamedAlike) {
  World world = MakeWorld(GetParam(), {.rows = 301, .dim = 16, .ids = 40, .requests = true});
  for (float& x : world.rows[0]) x = std::numeric_limits<float>::infinity();
  std::vector<std::string> messages;
  for (const Sharing sharing : {Sharing::kNever, Sharing::kWhereverPossible}) {
    auto network = MakeNetwork(world.spec, {.tile = 64, .sharing = sharing});
    messages.emplace_back(RunTrain(*network, world, RandomParams(*network, 9)).status().message());
  }
  EXPECT_NE(messages[0], "");
  EXPECT_EQ(messages[0], messages[1]);
}

INSTANTIATE_TEST_SUITE_P(Models, RequestsApartTest,
                         testing::Values("fm {}", "deepfm { hidden: 16 hidden: 3 }",
                                         "wide_deep { hidden: 40 }"));

Batch OneSlot(std::vector<uint32_t> offsets, std::vector<uint32_t> index, uint32_t ids) {
  Batch batch;
  batch.rows = static_cast<uint32_t>(offsets.size() - 1);
  TableIds table;
  table.ids.resize(ids);
  table.slots.push_back({.offsets = std::move(offsets), .index = std::move(index)});
  batch.tables.push_back(std::move(table));
  return batch;
}

struct Found {
  SharedSlots shared;
  std::vector<float> rows;
  BatchArrays arrays;
  void Find(const Batch& batch, int dim, Sharing sharing) {
    std::vector<SlotSpec> specs(batch.tables[0].slots.size());
    for (size_t s = 0; s < specs.size(); ++s) {
      specs[s].set_slot(static_cast<int>(s));
      specs[s].set_embedding_dim(dim);
    }
    rows.resize(batch.tables[0].ids.size() * dim);
    const std::span<const float> table(rows);
    Step step;
    step.batch = &batch;
    step.rows = {&table, 1};
    ViewArrays(batch, &arrays);
    step.share.arrays = &arrays;
    shared.Find(step, specs, sharing, {});
  }
};

TEST(SharedSlots, DistinctIdsInTheOrderOfRows) {
  const Batch batch = OneSlot({0, 1, 2, 2, 3, 4}, {7, 2, 7, 7}, 9);
  Found found;
  found.Find(batch, 4, Sharing::kWhereverPossible);
  ASSERT_EQ(found.shared.slots.size(), 1u);
  EXPECT_TRUE(found.shared.rest.empty());
  const SharedSlot& slot = found.shared.slots[0];
  ASSERT_EQ(slot.count, 2);
  EXPECT_EQ(found.shared.vectors, 3);
  EXPECT_EQ(std::vector<uint32_t>(slot.vector_of_row, slot.vector_of_row + 5),
            (std::vector<uint32_t>{0, 1, 2, 0, 0}));
  EXPECT_EQ(std::vector<uint32_t>(slot.first_row, slot.first_row + 2),
            (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(found.shared.parts[slot.part].entries.index[0], 7u);
  EXPECT_EQ(found.shared.parts[slot.part].entries.index[1], 2u);
}

TEST(SharedSlots, ListsAreShareableByRequestAlone) {
  Batch batch = OneSlot({0, 2, 3, 5}, {0, 1, 1, 0, 2}, 3);
  Found found;
  found.Find(batch, 4, Sharing::kWhereverPossible);
  EXPECT_TRUE(found.shared.slots.empty());
  ASSERT_EQ(found.shared.rest.size(), 1u);
  EXPECT_EQ(found.shared.rest[0].width, 4);

  batch.tables[0].slots[0].axis = Axis::kRequest;
  batch.requests = 3;
  batch.rows = 6;
  batch.request_of_row = {0, 0, 0, 2, 2, 2};
  found.Find(batch, 4, Sharing::kWhereverPossible);
  ASSERT_EQ(found.shared.slots.size(), 1u);
  const SharedSlot& slot = found.shared.slots[0];
  EXPECT_EQ(slot.count, 3);
  EXPECT_EQ(std::vector<uint32_t>(slot.first_row, slot.first_row + 3),
            (std::vector<uint32_t>{0, 6, 3}));
}

TEST(SharedSlots, ARequestsSlotsSideBySideHaveOneVector) {
  Batch batch = OneSlot({0, 2, 3}, {0, 1, 1}, 3);
  batch.tables[0].slots.resize(4, batch.tables[0].slots[0]);
  batch.requests = 2;
  batch.rows = 20;
  batch.request_of_row.assign(20, 0);
  for (int r = 10; r < 20; ++r) batch.request_of_row[r] = 1;
  for (Slot& slot : batch.tables[0].slots) slot.axis = Axis::kRequest;
  batch.tables[0].slots[2] = {.offsets = std::vector<uint32_t>(21), .index = {}};
  for (uint32_t r = 0; r <= 20; ++r) batch.tables[0].slots[2].offsets[r] = r;
  for (uint32_t r = 0; r < 20; ++r) batch.tables[0].slots[2].index.push_back(r % 3);
  Found found;
  found.Find(batch, 4, Sharing::kWhereverPossible);
  ASSERT_EQ(found.shared.slots.size(), 3u);
  const SharedSlot &two = found.shared.slots[0], &one = found.shared.slots[2];
  EXPECT_EQ(std::make_tuple(two.column, two.dim, two.part, two.parts, two.count),
            std::make_tuple(0, 8, 0, 2, 2));
  EXPECT_EQ(std::make_tuple(one.column, one.dim, one.part, one.parts, one.count),
            std::make_tuple(12, 4, 3, 1, 2));
  EXPECT_EQ(one.first, two.count + 1 + found.shared.slots[1].count + 1);
  EXPECT_TRUE(found.shared.rest.empty());

  found.Find(batch, 4, Sharing::kWhereFaster);
  ASSERT_EQ(found.shared.slots.size(), 1u) << "four columns alone are not worth it, eight are";
  EXPECT_EQ(found.shared.slots[0].parts, 2);
  ASSERT_EQ(found.shared.rest.size(), 1u);
  EXPECT_EQ(found.shared.rest[0].begin, 8);
  EXPECT_EQ(found.shared.rest[0].width, 8);
}

TEST(SharedSlots, FewDistinctIdsAreFasterShared) {
  std::vector<uint32_t> offsets(1001), index(1000);
  for (uint32_t r = 0; r <= 1000; ++r) offsets[r] = r;
  for (const auto& [ids, dim, shared] : std::vector<std::tuple<uint32_t, int, bool>>{
           {30, 16, true}, {320, 16, true}, {340, 16, false}, {320, 8, false}, {1, 1, false}}) {
    for (uint32_t r = 0; r < 1000; ++r) index[r] = r % ids;
    Found found;
    found.Find(OneSlot(offsets, index, ids), dim, Sharing::kWhereFaster);
    EXPECT_EQ(found.shared.slots.size(), shared ? 1u : 0u) << ids << " ids of dim " << dim;
  }
}

// What is not shared has to be moved: that pays only beside enough that is.
TEST(SharedSlots, OneSlotOfFewIdsBesideManyIsNotShared) {
  std::vector<uint32_t> offsets(1001), index(1000);
  for (uint32_t r = 0; r <= 1000; ++r) offsets[r] = r;
  for (uint32_t r = 0; r < 1000; ++r) index[r] = r % 10;
  for (const uint32_t distinct : {0, 10}) {  // Not counted, and counted by whoever made the batch.
    for (const auto& [others, shared] : std::vector<std::pair<int, bool>>{{3, true}, {9, false}}) {
      Batch batch = OneSlot(offsets, index, 1000);
      std::vector<Slot>& slots = batch.tables[0].slots;
      slots[0].distinct = distinct;
      for (int s = 0; s < others; ++s) {
        slots.push_back({.offsets = offsets, .index = index});
        for (uint32_t r = 0; r < 1000; ++r) slots.back().index[r] = r;
      }
      Found found;
      found.Find(batch, 16, Sharing::kWhereFaster);
      EXPECT_EQ(found.shared.slots.size(), shared ? 1u : 0u) << others << " others";
      ASSERT_EQ(found.shared.rest.size(), 1u);
      EXPECT_EQ(found.shared.rest[0].width, 16 * (others + !shared));
    }
  }
}

}  // namespace
}  // namespace starling
