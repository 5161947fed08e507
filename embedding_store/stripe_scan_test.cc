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
template <typename Where = InIndex>
std::map<uint64_t, bool> Scan(const Rows& rows, const std::vector<uint64_t>& ids,
                              Where where = {}) {
  std::map<uint64_t, bool> seen;
  ScanRows(
      where, rows.index, rows.slab, ids, RowLines<0, 1>{24},
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
    EXPECT_EQ(Scan(rows, ids), expected);
    std::sort(ids.begin(), ids.end(), IdBefore);
    EXPECT_EQ(Scan(rows, ids), expected);
  }
}

TEST(StripeScanTest, RowsAreFoundByTheirPlacesAndWhereTheseAreWrongByTheIndex) {
  std::vector<uint64_t> ids(1500);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = Mix64(i);
  Rows rows(ids);
  std::vector<uint32_t> places;
  for (size_t i = 0; i < ids.size(); ++i) {
    places.push_back(rows.slab.PlaceOf(&rows.slab.row(static_cast<uint32_t>(i))));
    ASSERT_EQ(rows.slab.view().at(places[i]).id, ids[i]);
  }
  std::map<uint64_t, bool> expected;
  for (uint64_t id : ids) expected[id] = true;
  EXPECT_EQ(Scan(rows, ids, AtPlaces{places.data()}), expected);
  // Without the index: all that is found now is found by its place.
  Rows no_index({});
  for (uint64_t id : ids) {
    if (no_index.slab.free_slots() == 0) {
      ASSERT_TRUE(no_index.slab.Grow());
    }
    no_index.slab.Allocate(id);
  }
  ASSERT_TRUE(no_index.index.Grow());
  EXPECT_EQ(Scan(no_index, ids, AtPlaces{places.data()}), expected);

  for (size_t i = 0; i < ids.size(); i += 3) {  // Gone, and its place taken by another.
    rows.Remove(ids[i]);
    if (i % 2 == 0) rows.Add(Mix64(ids.size() + i));
    expected[ids[i]] = false;
  }
  for (size_t i = 1; i < ids.size(); i += 3) places[i] = places[i + 1];   // Another's.
  for (size_t i = 2; i < ids.size(); i += 6) places[i] = 0xFFFFFFFF - i;  // Nowhere.
  EXPECT_EQ(Scan(rows, ids, AtPlaces{places.data()}), expected);
}

TEST(StripeScanTest, ASlotWithoutARowIsNoRowOfAnyId) {
  // The ids that memory without a row may seem to hold.
  const std::vector<uint64_t> odd = {0, RowSlab::kNoRow};
  const std::map<uint64_t, bool> none = {{0, false}, {RowSlab::kNoRow, false}};
  Rows rows({});
  EXPECT_TRUE(rows.slab.Grow());
  EXPECT_EQ(Scan(rows, odd), none);
  for (uint64_t id = 0; id < 2000; ++id) rows.Add(id + 1);
  for (uint64_t id = 0; id < 2000; ++id) rows.Remove(id + 1);
  EXPECT_EQ(Scan(rows, odd), none);
  for (uint64_t id : odd) rows.Add(id);
  EXPECT_EQ(Scan(rows, odd), (std::map<uint64_t, bool>{{0, true}, {RowSlab::kNoRow, true}}));
  for (uint64_t id : odd) rows.Remove(id);
  EXPECT_EQ(Scan(rows, odd), none);
}

TEST(StripeScanTest, BothInstructionSetsGiveTheSame) {
  if (BestInstructionSet() != InstructionSet::kAvx2) GTEST_SKIP() << "no AVX2 here";
  std::vector<uint64_t> ids(kScanIds);
  std::iota(ids.begin(), ids.end(), uint64_t{1} << 40);
  const Rows rows(ids);
  auto run = [&](auto scan) {
    std::vector<size_t> hits;
    std::vector<size_t>* const to = &hits;
    LateId late[kScanIds];
    IndexGuesses guesses(rows.index.view());
    const size_t lates = scan(
        &guesses, rows.slab.view(), static_cast<const uint64_t*>(ids.data()), ids.size(),
        size_t{16}, RowLines<0, 1>{24}, [to](size_t k, RowHeader*) { to->push_back(k); },
        static_cast<LateId*>(late));
    for (const LateId& l : std::span(late).first(lates)) hits.insert(hits.end(), {l.k, l.slot});
    return hits;
  };
  EXPECT_EQ(run([](auto... args) { return ScanPassAvx2(args...); }),
            run([](auto... args) { return ScanPassBase(args...); }));
}

}  // namespace
}  // namespace starling
