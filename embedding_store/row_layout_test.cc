#include "embedding_store/row_layout.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "embedding_store/row_init.h"
#include "embedding_store/table_test_util.h"

namespace starling {
namespace {

std::vector<float> InitOf(const TableSpec& spec, uint64_t id) {
  RowLayout layout = *RowLayout::Create(spec);
  std::vector<float> row(layout.floats(), -1.0f);
  layout.InitRow(TableSeed(spec), id, row);
  return row;
}

TEST(RowLayoutTest, SegmentsStandOneAfterTheOther) {
  absl::StatusOr<RowLayout> layout = RowLayout::Create(MakeSpec("adam", 4));
  ASSERT_OK(layout.status());
  EXPECT_EQ(layout->width(), 1 + 4);
  EXPECT_EQ(layout->state_size(), 2 + 9);
  EXPECT_EQ(layout->segments()[1].weight_offset, 1);
  EXPECT_EQ(layout->segments()[1].state_offset, 2);
}

TEST(RowLayoutTest, InitIsAFunctionOfSeedTableAndId) {
  TableSpec spec = MakeSpec("adagrad");
  EXPECT_EQ(InitOf(spec, 5), InitOf(spec, 5));
  EXPECT_NE(InitOf(spec, 5), InitOf(spec, 6));
  TableSpec other_seed = spec, other_name = spec;
  other_seed.set_seed(8);
  other_name.mutable_options()->set_name("items");
  EXPECT_NE(InitOf(spec, 5), InitOf(other_seed, 5));
  EXPECT_NE(InitOf(spec, 5), InitOf(other_name, 5));
}

// Checkpoints of one version must start new rows as another does.
TEST(RowLayoutTest, InitIsFrozen) {
  std::vector<float> row = InitOf(MakeSpec("adagrad"), 5);
  EXPECT_EQ(row[0], 0.0f);  // The linear weight has no init.
  EXPECT_FLOAT_EQ(row[1], -0.01906956f);
  EXPECT_FLOAT_EQ(row[4], 0.076129317f);
}

TEST(RowLayoutTest, InitIsTheNormalOfItsCounters) {
  int others = 0;
  for (uint64_t key = 0; key < 3000; ++key) {
    const size_t n = 1 + key % 67;
    std::vector<float> floats(n);
    FillNormal(Mix64(key), key % 5, 0.3f, floats);
    for (size_t i = 0; i < n; ++i) {
      const auto expected = static_cast<float>(0.3f * RandomNormal(Mix64(key), key % 5 + i));
      EXPECT_FLOAT_EQ(floats[i], expected) << key << " " << i;
      others += floats[i] != expected;
    }
  }
  EXPECT_LE(others, 10);  // Of 100,000.
}

// Whatever the instruction set: all of them compute these bits.
TEST(RowLayoutTest, InitHasTheSameBitsOnEveryMachine) {
  uint64_t hash = 0;
  for (uint64_t key = 0; key < 2000; ++key) {
    std::vector<float> floats(1 + key % 20);
    FillNormal(Mix64(key), key % 5, 0.3f, floats);
    for (float f : floats) hash = Mix64(hash ^ std::bit_cast<uint32_t>(f));
  }
  EXPECT_EQ(hash, 0x3d28b88c8eacfd00u);
}

TEST(RowLayoutTest, InitHasTheDeviationAskedFor) {
  TableSpec spec = MakeSpec("sgd", 16);
  double sum = 0, squares = 0;
  for (uint64_t id = 0; id < 2000; ++id) {
    std::vector<float> row = InitOf(spec, id);
    for (int i = 1; i <= 16; ++i) {
      sum += row[i];
      squares += row[i] * row[i];
    }
  }
  EXPECT_NEAR(sum / 32'000, 0, 0.002);
  EXPECT_NEAR(std::sqrt(squares / 32'000), 0.1, 0.002);
}

TEST(RowLayoutTest, StateStartsAsTheOptimiserSays) {
  TableSpec spec = MakeSpec("adagrad");
  spec.mutable_segments(1)->mutable_optimizer()->mutable_adagrad()->set_initial_accumulator(0.5);
  std::vector<float> row = InitOf(spec, 5);
  EXPECT_EQ(std::vector<float>(row.begin() + 5, row.end()),
            (std::vector<float>{0, 0, 0.5, 0.5, 0.5, 0.5}));
}

TEST(RowLayoutTest, BadSpecsAreRefusedByName) {
  TableSpec none;
  EXPECT_TRUE(absl::IsInvalidArgument(RowLayout::Create(none).status()));
  TableSpec wide = MakeSpec("sgd", 513);
  absl::Status status = RowLayout::Create(wide).status();
  EXPECT_EQ(status.message(),
            "table users: segment embedding: dim is 513; it must be within 1..512");
  TableSpec ruleless = MakeSpec("no such rule");
  EXPECT_TRUE(absl::IsInvalidArgument(RowLayout::Create(ruleless).status()));
}

}  // namespace
}  // namespace starling
