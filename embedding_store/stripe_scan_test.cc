#include "embedding_store/stripe_scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "base/random.h"

namespace starling {
namespace {

// Rows of one float, with their index.
struct Rows {
  explicit Rows(const std::vector<uint64_t>& ids) {
    for (uint64_t id : ids) Add(id);
  }
  void Add(uint64_t id) {
    if (slab.free_slots() == 0) {
      EXPECT_TRUE(slab.Grow());
    }
    if (index.room() == 0) {
      EXPECT_TRUE(index.Grow());
      for (uint32_t slot = 0; slot < slab.slots(); ++slot) {
        const RowHeader& row = slab.row(slot);
        if (row.has(kRowUsed)) index.Insert(BucketIndex::HashOf(row.id), slot);
      }
    }
    index.Insert(BucketIndex::HashOf(id), slab.Allocate(id));
  }
  void Remove(uint64_t id) {
    const uint64_t hash = BucketIndex::HashOf(id);
    const uint32_t slot = index.view().Find(hash, [&](uint32_t s) { return slab.row(s).id == id; });
    ASSERT_NE(slot, BucketIndex::kNone);
    index.Erase(hash, slot);
    slab.Free(slot);
  }
  PageArena arena{32 << 20};
  BucketIndex index{arena.Cut(16 << 20), 4096, /*common_bits=*/0};
  RowSlab slab{/*body_bytes=*/4, arena.Cut(16 << 20), /*step_bytes=*/4096};
};

// Which ids were hit (true) and missed; each is to be told of once, with its own row.
template <typename Block>
std::map<uint64_t, bool> Scan(Block block, const Rows& rows, const std::vector<uint64_t>& ids) {
  std::map<uint64_t, bool> seen;
  ScanRows(
      block, rows.index, rows.slab, ids, RowLines<0, 1>{24},
      [&](size_t k, RowHeader* row) {
        EXPECT_EQ(row->id, ids[k]);
        EXPECT_TRUE(row->has(kRowUsed));
        EXPECT_TRUE(seen.emplace(ids[k], true).second) << k;
      },
      [&](size_t k) { EXPECT_TRUE(seen.emplace(ids[k], false).second) << k; });
  return seen;
}

TEST(StripeScanTest, EveryIdIsHitOrMissedOnceWhateverTheNumber) {
  std::vector<uint64_t> known(20'000);
  for (size_t i = 0; i < known.size(); ++i) known[i] = Mix64(i);
  const Rows rows(known);
  for (size_t n : {0, 1, 2, 15, 16, 17, 23, 24, 25, 47, 48, 49, 511, 512, 513, 1100, 5000}) {
    SCOPED_TRACE(n);
    std::vector<uint64_t> ids;
    std::map<uint64_t, bool> expected;
    for (size_t i = 0; i < n; ++i) {
      const bool there = RandomBelow(n, i, 8) != 0;
      ids.push_back(there ? known[(i * 7919) % known.size()] : Mix64(known.size() + i));
      expected[ids.back()] = there;
    }
    EXPECT_EQ(Scan(ScanOneByOne(), rows, ids), expected);
    EXPECT_EQ(Scan(ScanInBlocks(), rows, ids), expected);
    std::sort(ids.begin(), ids.end(), IdBefore);
    EXPECT_EQ(Scan(ScanInBlocks(), rows, ids), expected);
  }
}

TEST(StripeScanTest, ASlotWithoutARowIsNoRowOfAnyId) {
  // The ids that memory without a row may seem to hold.
  const std::vector<uint64_t> odd = {0, RowSlab::kNoRow};
  const std::map<uint64_t, bool> none = {{0, false}, {RowSlab::kNoRow, false}};
  Rows rows({});
  EXPECT_TRUE(rows.slab.Grow());
  EXPECT_EQ(Scan(ScanOneByOne(), rows, odd), none);
  for (uint64_t id = 0; id < 2000; ++id) rows.Add(id + 1);
  for (uint64_t id = 0; id < 2000; ++id) rows.Remove(id + 1);
  EXPECT_EQ(Scan(ScanOneByOne(), rows, odd), none);
  for (uint64_t id : odd) rows.Add(id);
  EXPECT_EQ(Scan(ScanOneByOne(), rows, odd),
            (std::map<uint64_t, bool>{{0, true}, {RowSlab::kNoRow, true}}));
  for (uint64_t id : odd) rows.Remove(id);
  EXPECT_EQ(Scan(ScanInBlocks(), rows, odd), none);
}

TEST(StripeScanTest, BothInstructionSetsGiveTheSame) {
  if (BestInstructionSet() != InstructionSet::kAvx2) GTEST_SKIP() << "no AVX2 here";
  std::vector<uint64_t> ids(kScanIdsMax);
  std::iota(ids.begin(), ids.end(), uint64_t{1} << 40);
  const Rows rows(ids);
  auto run = [&](auto scan) {
    std::vector<size_t> hits;
    std::vector<size_t>* const to = &hits;
    uint16_t late[kScanIdsMax];
    const size_t lates = scan(
        ScanInBlocks(), rows.index.view(), rows.slab.view(),
        static_cast<const uint64_t*>(ids.data()), ids.size(), RowLines<0, 1>{24},
        [to](size_t k, RowHeader*) { to->push_back(k); }, static_cast<uint16_t*>(late));
    hits.insert(hits.end(), late, late + lates);
    return hits;
  };
  EXPECT_EQ(run([](auto... args) { return ScanGuessesAvx2(args...); }),
            run([](auto... args) { return ScanGuessesBase(args...); }));
}

}  // namespace
}  // namespace starling
