#include "embedding_store/bucket_index.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"
#include "embedding_store/row_slab.h"

namespace starling {
namespace {

TEST(BucketIndexTest, RandomInsertsAndErasesEqualAMap) {
  const uint64_t seed = 5;
  BucketIndex index;
  std::map<uint64_t, uint32_t> model;
  for (uint64_t i = 0; i < 200'000; ++i) {
    uint64_t id = RandomBelow(seed, 2 * i, 4000);  // Id 0 is an id like any other.
    auto it = model.find(id);
    ASSERT_EQ(index.Find(id), it == model.end() ? BucketIndex::kNone : it->second) << "step " << i;
    if (it != model.end()) {
      index.Erase(id);
      model.erase(it);
    } else if (RandomBelow(seed, 2 * i + 1, 4) != 0) {
      index.Insert(id, static_cast<uint32_t>(i));
      model[id] = static_cast<uint32_t>(i);
    }
    ASSERT_EQ(index.size(), static_cast<int64_t>(model.size()));
  }
}

TEST(BucketIndexTest, ChurnInATinyIndexNeitherGrowsNorHangs) {
  BucketIndex index;
  for (uint64_t id = 0; id < 8; ++id) index.Insert(id, 0);
  const int64_t bytes = index.bytes();
  for (uint64_t id = 8; id < 100'000; ++id) {
    index.Erase(id - 8);
    index.Insert(id, 0);
    ASSERT_EQ(index.Find(id + 1), BucketIndex::kNone);
  }
  EXPECT_EQ(index.bytes(), bytes);
}

TEST(BucketIndexTest, GrowthIsAnnouncedBeforeItHappens) {
  BucketIndex index;
  for (uint64_t id = 0; id < 1000; ++id) {
    const int64_t expected = index.bytes() + index.growth_bytes();
    index.Insert(id, 0);
    ASSERT_EQ(index.bytes(), expected);
  }
}

TEST(RowSlabTest, FreedRowsAreReusedAndRowsNeverMove) {
  RowSlab slab(3, 4);
  std::vector<RowSlab::Row*> rows;
  for (uint64_t id = 0; id < 9; ++id) {
    const int64_t expected = slab.bytes() + slab.growth_bytes();
    uint32_t slot = slab.Allocate(id);
    EXPECT_EQ(slot, id);
    EXPECT_EQ(slab.bytes(), expected);
    slab.floats(slot)[2] = static_cast<float>(id);
    rows.push_back(&slab.row(slot));
  }
  EXPECT_EQ(slab.bytes(), 3 * 4 * RowSlab::RowBytes(3));
  for (uint32_t s = 0; s < 9; ++s) {
    EXPECT_EQ(&slab.row(s), rows[s]);
    EXPECT_EQ(slab.floats(s)[2], static_cast<float>(s));
  }
  slab.Free(5);
  EXPECT_EQ(slab.growth_bytes(), 0);
  EXPECT_EQ(slab.Allocate(99), 5u);
  EXPECT_EQ(slab.rows(), 9);
}

}  // namespace
}  // namespace starling
