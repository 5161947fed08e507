#include "embedding_store/bucket_index.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/random.h"
#include "embedding_store/row_slab.h"

namespace starling {
namespace {

// An index with rows that are nothing but their ids.
class IndexedIds {
 public:
  explicit IndexedIds(int64_t reserve = 64 << 20)
      : arena(reserve), index(arena.Cut(reserve), 4096, /*common_bits=*/0) {}

  uint32_t Find(uint64_t id) const {
    return index.view().Find(BucketIndex::HashOf(id),
                             [&](uint32_t slot) { return ids[slot] == id; });
  }
  void Insert(uint64_t id) {
    if (index.room() == 0) {
      const int64_t expected = index.bytes() + index.growth_bytes();
      ASSERT_TRUE(index.Grow());
      ASSERT_EQ(index.bytes(), expected);
      for (uint32_t s = 0; s < ids.size(); ++s) {
        if (used[s]) index.Insert(BucketIndex::HashOf(ids[s]), s);
      }
    }
    index.Insert(BucketIndex::HashOf(id), static_cast<uint32_t>(ids.size()));
    ids.push_back(id);
    used.push_back(true);
  }
  void Erase(uint32_t slot) {
    index.Erase(BucketIndex::HashOf(ids[slot]), slot);
    used[slot] = false;
  }
  PageArena arena;
  BucketIndex index;
  std::vector<uint64_t> ids;  // By slot.
  std::vector<bool> used;
};

TEST(BucketIndexTest, RandomInsertsAndErasesEqualAMap) {
  const uint64_t seed = 5;
  IndexedIds indexed;
  std::map<uint64_t, uint32_t> model;
  for (uint64_t i = 0; i < 200'000; ++i) {
    uint64_t id = RandomBelow(seed, 2 * i, 40'000);  // Id 0 is an id like any other.
    auto it = model.find(id);
    ASSERT_EQ(indexed.Find(id), it == model.end() ? BucketIndex::kNone : it->second) << i;
    if (it != model.end()) {
      indexed.Erase(it->second);
      model.erase(it);
    } else if (RandomBelow(seed, 2 * i + 1, 4) != 0) {
      model[id] = static_cast<uint32_t>(indexed.ids.size());
      indexed.Insert(id);
    }
    ASSERT_EQ(indexed.index.size(), static_cast<int64_t>(model.size()));
  }
}

TEST(BucketIndexTest, ChurnNeitherGrowsItNorHangs) {
  IndexedIds indexed;
  for (uint64_t id = 0; id < 600; ++id) indexed.Insert(id);
  const int64_t bytes = indexed.index.bytes();
  for (uint64_t id = 600; id < 100'000; ++id) {
    indexed.Erase(static_cast<uint32_t>(id - 600));
    indexed.Insert(id);
    ASSERT_EQ(indexed.Find(id + 1), BucketIndex::kNone);
  }
  EXPECT_EQ(indexed.index.bytes(), bytes);
}

TEST(BucketIndexTest, ItTakesAtMostEightBytesAnIdAtAnySize) {
  IndexedIds indexed;
  for (uint64_t id = 0; id < 300'000; ++id) {
    indexed.Insert(id);
    if (id < 20'000) continue;  // Pages round up what is small.
    ASSERT_LE(indexed.index.bytes(), 8 * static_cast<int64_t>(id)) << id;
  }
}

TEST(BucketIndexTest, GrowthBeyondTheReservationFailsAndChangesNothing) {
  IndexedIds indexed(2 << 20);
  uint64_t id = 0;
  while (indexed.index.room() > 0 ||
         indexed.index.bytes() + indexed.index.growth_bytes() <= 2 << 20) {
    indexed.Insert(id++);
  }
  EXPECT_FALSE(indexed.index.Grow());
  for (uint64_t i = 0; i < id; ++i) ASSERT_EQ(indexed.Find(i), i);
}

TEST(BucketIndexTest, IdsWithAPatternAreFoundToo) {
  for (int shift : {0, 12, 32, 40, 48}) {
    SCOPED_TRACE(shift);
    IndexedIds indexed;
    const uint64_t ids = std::min<uint64_t>(50'000, uint64_t{1} << (63 - shift));
    for (uint64_t i = 0; i < ids; ++i) indexed.Insert(i << shift);
    for (uint64_t i = 0; i < ids; ++i) {
      ASSERT_EQ(indexed.Find(i << shift), i);
      ASSERT_EQ(indexed.Find(i << shift | 1ull << 63), BucketIndex::kNone);
    }
  }
}

TEST(RowSlabTest, FreedRowsAreReusedAndRowsNeverMove) {
  PageArena arena(1 << 20);
  RowSlab slab(/*body_bytes=*/12, arena.Cut(1 << 20), /*step_bytes=*/4096);
  std::vector<RowHeader*> rows;
  for (uint64_t id = 0; id < 900; ++id) {
    if (slab.free_slots() == 0) {
      const int64_t expected = slab.bytes() + slab.growth_bytes();
      ASSERT_TRUE(slab.Grow());
      ASSERT_EQ(slab.bytes(), expected);
    }
    uint32_t slot = slab.Allocate(id);
    EXPECT_EQ(slot, id);
    rows.push_back(&slab.row(slot));
  }
  EXPECT_EQ(slab.bytes(), (900 * 32 + 4095) / 4096 * 4096);
  for (uint32_t s = 0; s < 900; ++s) {
    ASSERT_EQ(&slab.row(s), rows[s]);
    ASSERT_EQ(slab.row(s).id, s);
  }
  slab.Free(5);
  EXPECT_EQ(slab.Allocate(99), 5u);
  EXPECT_EQ(slab.rows(), 900);
}

TEST(RowHeaderTest, FlagsAndFrequencyDoNotDisturbEachOther) {
  RowHeader row;
  row.Set(kRowUsed | kRowDirty);
  row.set_frequency(77);
  row.Clear(kRowUsed);
  EXPECT_EQ(row.flags(), kRowDirty);
  EXPECT_EQ(row.frequency(), 77u);
  row.set_frequency(uint64_t{1} << 40);
  EXPECT_EQ(row.frequency(), RowHeader::kFrequencyMax);
  EXPECT_EQ(row.flags(), kRowDirty);
}

TEST(RowHeaderTest, SightsAddUpAsFarAsAFrequencyGoes) {
  RowHeader row;
  row.Set(kRowUsed);
  row.AddSights(3, kRowReferenced);
  row.AddSights(RowHeader::kFrequencyMax - 5, 0);
  EXPECT_EQ(row.frequency(), RowHeader::kFrequencyMax - 2);
  row.AddSights(2, kRowReferenced);
  EXPECT_EQ(row.frequency(), RowHeader::kFrequencyMax);
  for (uint32_t more : {1u, 77u, 0xFFFFFFFFu}) {
    row.AddSights(more, kRowDirty);
    EXPECT_EQ(row.frequency(), RowHeader::kFrequencyMax);
    EXPECT_EQ(row.flags(), kRowUsed | kRowReferenced | kRowDirty);
  }
}

}  // namespace
}  // namespace starling
