// ScanRows: the rows of many ids, found so that the memory is seldom idle. While a row is used,
// the rows of ids some way behind it are asked for, and behind these index lines. A prefetch
// waits until its address is translated, and the processor looks only some 300 instructions ahead:
// what is asked for goes into L2, which takes in more lines at a time than L1 and holds them
// until they are used, so that it may be early and the loop may be long.
//
// The few ids whose row is not what their home line made expect (further on, behind another
// id of the same tag, or nowhere) are set aside and searched for together: waiting for each
// would cost more than all the others.
//
// Who saw the rows before may know their places: then the index is asked only for
// those that are there no longer.
//
// Ids are unique, so that the order in which they are handled does not matter.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "base/optimizer.h"
#include "base/prefetch.h"
#include "embedding_store/bucket_index.h"
#include "embedding_store/row_slab.h"

namespace starling {

// Which lines of a row are asked for: those that hold its bytes [kBegin, end).
// They are kSteps, or kSteps + 1 where the row begins late in a line; kSteps is
// 0 if it is not known when the loop is compiled.
template <int64_t kBegin, int64_t kSteps>
struct RowLines {
  int64_t end;
};

constexpr int64_t StepsOf(int64_t bytes) { return (bytes + 62) / 64; }

template <int64_t kBegin, int64_t kSteps>
[[gnu::always_inline]] inline void PrefetchRow(const RowHeader* row,
                                               RowLines<kBegin, kSteps> lines) {
  const char* const at = reinterpret_cast<const char*>(row);
  const int64_t steps = kSteps > 0 ? kSteps : StepsOf(lines.end - kBegin);
#pragma GCC unroll 8
  for (int64_t step = 0; step < steps; ++step) PrefetchIntoL2(at + kBegin + 64 * step);
  PrefetchIntoL2(at + lines.end - 1);
}

// Calls fn with the lines of a row's bytes [kBegin, end).
template <int64_t kBegin, typename Fn>
void WithRowLines(int64_t end, const Fn& fn) {
  switch (StepsOf(end - kBegin)) {
    case 1:
      return fn(RowLines<kBegin, 1>{end});
    case 2:
      return fn(RowLines<kBegin, 2>{end});
    case 3:
      return fn(RowLines<kBegin, 3>{end});
    default:
      return fn(RowLines<kBegin, 0>{end});
  }
}

// Ids of a pass. So many of them are used between asking for a row and its use, fewer if rows are
// large, and so many more between asking for its line and for the row.
inline constexpr size_t kScanIds = 1024, kRowsAheadMin = 8, kRowsAheadMax = 64, kLinesAhead = 64;
inline constexpr size_t kAheadBytes = 64 << 10;
inline size_t RowsAheadOf(int64_t row_bytes) {
  return std::clamp(kAheadBytes / static_cast<size_t>(row_bytes), kRowsAheadMin, kRowsAheadMax);
}

// Expects rows where the index has them.
class IndexGuesses {
 public:
  explicit IndexGuesses(const BucketIndex::View& index) : index_(index) {}

  // The methods below are for ids[0, n).
  [[gnu::always_inline]] void Take(const uint64_t* ids, size_t n) {
    for (size_t k = 0; k < n; ++k) {
      const uint64_t hash = BucketIndex::HashOf(ids[k]);
      lines_[k] = index_.HomeLine(hash);
      tags_[k] = BucketIndex::View::Tag(hash);
    }
  }
  // Asks for what Expect needs.
  [[gnu::always_inline]] void Ask(size_t k) const { PrefetchIntoL2(lines_[k]); }
  // Where the row of ids[k] probably is. Never null.
  [[gnu::always_inline]] RowHeader* Expect(const RowSlab::View& rows, size_t k) const {
    const BucketIndex::Line& line = *lines_[k];
    const uint32_t fits = BucketIndex::View::Fits(line, tags_[k]);
    RowHeader* row = &rows.row(line.slots[std::countr_zero(fits | kLast)]);
    // fits != 0 ? row : none, without the branch that the compiler makes of it, which the
    // processor would guess wrong for every tenth id.
    asm("test %1, %1\n\tcmovz %2, %0" : "+r"(row) : "r"(fits), "r"(&kNoRowHeader) : "cc");
    return row;
  }
  // Asks for what Next needs.
  [[gnu::always_inline]] void AskNext(size_t k, uint64_t) const {
    PrefetchIntoL2(index_.LineAfter(lines_[k]));
  }
  // BucketIndex::View::Next for ids[k].
  template <typename Wanted>
  uint32_t Next(size_t k, uint64_t, const Wanted& wanted) const {
    return index_.Next(lines_[k], tags_[k], wanted);
  }

 private:
  static constexpr RowHeader kNoRowHeader = {.id = RowSlab::kNoRow};
  static constexpr uint32_t kLast = 1u << (BucketIndex::kEntries - 1);

  const BucketIndex::View index_;
  BucketIndex::Line* lines_[kScanIds];
  uint8_t tags_[kScanIds];
};

// Expects rows where they were: RowSlab's place of ids[k] is places[k].
class PlaceGuesses {
 public:
  PlaceGuesses(const uint32_t* places, const BucketIndex::View& index)
      : after_(places), index_(index) {}
  void Take(const uint64_t*, size_t n) {
    places_ = after_;
    after_ += n;
  }
  void Ask(size_t) const {}
  [[gnu::always_inline]] RowHeader* Expect(const RowSlab::View& rows, size_t k) const {
    return &rows.at(places_[k]);
  }
  void AskNext(size_t, uint64_t id) const {
    PrefetchIntoL2(index_.HomeLine(BucketIndex::HashOf(id)));
  }
  template <typename Wanted>
  uint32_t Next(size_t, uint64_t id, const Wanted& wanted) const {
    const uint64_t hash = BucketIndex::HashOf(id);
    return index_.Next(index_.HomeLine(hash), BucketIndex::View::Tag(hash), wanted);
  }

 private:
  const uint32_t* places_ = nullptr;
  const uint32_t* after_;  // Those of the next pass.
  const BucketIndex::View index_;
};

// Where rows are looked for first: in the index, or where ids[k]'s was, which is places[k].
struct InIndex {
  IndexGuesses From(const BucketIndex::View& index) const { return IndexGuesses(index); }
};
struct AtPlaces {
  const uint32_t* places;
  PlaceGuesses From(const BucketIndex::View& index) const { return {places, index}; }
};

// An id whose row was not where it was looked for first.
struct LateId {
  uint32_t k;
  uint32_t slot;  // As of BucketIndex::View::Next.
};

// For n ids. It returns how many it set aside in `late`, with the row that is to be looked
// at next on its way.
template <typename Guesses, typename Lines, typename OnHit>
[[gnu::always_inline]] inline size_t ScanPass(Guesses* guesses, const RowSlab::View rows,
                                              const uint64_t* ids, size_t n, size_t rows_ahead,
                                              Lines used, const OnHit on_hit, LateId* late) {
  RowHeader* expected[kScanIds];
  size_t lates = 0;
  const auto expect = [&](size_t k) __attribute__((always_inline)) {
    expected[k] = guesses->Expect(rows, k);
    PrefetchRow(expected[k], used);
  };
  const auto use = [&](size_t k) __attribute__((always_inline)) {
    // What is expected may be a slot without a row; the id of such a one is looked for later.
    if (expected[k]->id == ids[k] && ids[k] != RowSlab::kNoRow) [[likely]] {
      on_hit(k, expected[k]);
    } else {
      guesses->AskNext(k, ids[k]);
      late[lates++].k = static_cast<uint32_t>(k);
    }
  };
  const size_t lines_ahead = rows_ahead + kLinesAhead;
  guesses->Take(ids, n);
  for (size_t k = 0; k < std::min(lines_ahead, n); ++k) guesses->Ask(k);
  for (size_t k = 0; k < std::min(rows_ahead, n); ++k) expect(k);
  for (size_t k = 0; k < n; ++k) {
    if (k + rows_ahead < n) [[likely]] {
      guesses->Ask(std::min(k + lines_ahead, n - 1));
      expect(k + rows_ahead);
    }
    use(k);
  }
  for (size_t i = 0; i < lates; ++i) {
    LateId& l = late[i];
    const RowHeader* const before = expected[l.k];
    // The id that free slots have too is not expected anywhere.
    l.slot = ids[l.k] == RowSlab::kNoRow ? BucketIndex::kFurther
                                         : guesses->Next(l.k, ids[l.k], [&](uint32_t slot) {
                                             return &rows.row(slot) != before;
                                           });
    if (l.slot < BucketIndex::kFurther) PrefetchRow(&rows.row(l.slot), used);
  }
  return lates;
}

// The same code with other registers. Only where the machine has avx2.
template <typename... Args>
[[gnu::target("avx2"), gnu::noinline]] size_t ScanPassAvx2(Args... args) {
  return ScanPass(args...);
}
template <typename... Args>
[[gnu::noinline]] size_t ScanPassBase(Args... args) {
  return ScanPass(args...);
}

// Calls on_hit(k, row) for every ids[k] that has a row in memory, and
// on_miss(k) for the others. `used` is what on_hit reads or writes of a row. `where` is InIndex or
// AtPlaces.
template <typename Where, typename Lines, typename OnHit, typename OnMiss>
void ScanRows(Where where, const BucketIndex& index_now, const RowSlab& rows_now,
              std::span<const uint64_t> all, Lines used, const OnHit& on_hit,
              const OnMiss& on_miss) {
  const BucketIndex::View index = index_now.view();
  const RowSlab::View rows = rows_now.view();
  static const bool avx2 = BestInstructionSet() == InstructionSet::kAvx2;
  const size_t rows_ahead = RowsAheadOf(used.end);
  auto guesses = where.From(index);
  LateId late[kScanIds];
  for (size_t first = 0; first < all.size(); first += kScanIds) {
    const uint64_t* const ids = all.data() + first;
    const size_t n = std::min(kScanIds, all.size() - first);
    auto hit = [ on_hit, first ](size_t k, RowHeader * row) __attribute__((always_inline)) {
      on_hit(first + k, row);
    };
    const size_t lates = avx2 ? ScanPassAvx2(&guesses, rows, ids, n, rows_ahead, used, hit, late)
                              : ScanPassBase(&guesses, rows, ids, n, rows_ahead, used, hit, late);
    for (const LateId& l : std::span(late).first(lates)) {
      const uint64_t id = ids[l.k];
      auto is_it = [&](uint32_t slot) { return rows.row(slot).id == id; };
      uint32_t slot = l.slot;
      if (slot == BucketIndex::kFurther || (slot != BucketIndex::kNone && !is_it(slot))) {
        slot = index.Find(BucketIndex::HashOf(id), is_it);
      }
      if (slot == BucketIndex::kNone) {
        on_miss(first + l.k);
      } else {
        hit(l.k, &rows.row(slot));
      }
    }
  }
}

}  // namespace starling
