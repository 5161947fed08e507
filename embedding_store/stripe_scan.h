// ScanRows: the rows of many ids, found so that the memory is seldom idle. Index
// lines are asked for some ids ahead of their use, and rows some ids ahead of
// theirs. A prefetch waits until its address is translated, and the processor
// looks only some 250 instructions ahead: what stands between two prefetches
// costs more than its own time, so the loop is as short as it can be.
//
// The few ids whose row is not what their home line made expect (in a later
// line, behind another id of the same tag, or nowhere) are set aside and
// searched for together: waiting for each would cost more than all the others.
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
#include "embedding_store/bucket_index.h"
#include "embedding_store/prefetch.h"
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
  for (int64_t step = 0; step < steps; ++step) PrefetchLine(at + kBegin + 64 * step);
  PrefetchLine(at + lines.end - 1);
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

inline constexpr size_t kScanIdsMax = 512;

// How many rows are asked for before as many are used, and how many ids ahead of their use: one,
// if their use takes few instructions. A processor brings in some twenty lines at a time, so that
// larger blocks leave the memory idle while their rows are used.
template <size_t kRows, size_t kAhead>
struct ScanBlock {};
using ScanOneByOne = ScanBlock<1, 16>;
using ScanInBlocks = ScanBlock<4, 16>;

// Where the row of ids[k] probably is: what the id's home line makes expect. The
// line of an id has to be asked for (Ask) some ids before. Where that line has nothing that fits,
// the next one is asked for, in which the few that did not find room are searched for later.
template <size_t kAhead>
class LineGuesses {
 public:
  [[gnu::always_inline]] LineGuesses(const BucketIndex::View& index, const uint64_t* ids, size_t n)
      : index_(index) {
    for (size_t k = 0; k < n; ++k) {
      const uint64_t hash = BucketIndex::HashOf(ids[k]);
      lines_[k] = index.HomeLine(hash);
      tags_[k] = BucketIndex::View::Tag(hash);
    }
    // The last line again and again: that costs less than to ask for the end.
    std::fill_n(lines_ + n, kAhead, lines_[n - 1]);
  }
  [[gnu::always_inline]] void Ask(size_t k) const { PrefetchLine(lines_[k]); }
  [[gnu::always_inline]] RowHeader* Of(const RowSlab::View& rows, size_t k) const {
    const uint32_t fits = BucketIndex::View::Fits(*lines_[k], tags_[k]);
    if (fits == 0) [[unlikely]] {
      PrefetchLine(index_.LineAfter(lines_[k]));
      return const_cast<RowHeader*>(&kNoRowHeader);
    }
    return &rows.row(lines_[k]->slots[std::countr_zero(fits)]);
  }
  // Where it is if not there. The id that free slots have is not expected anywhere.
  uint32_t Second(size_t k, uint64_t id) const {
    return id == RowSlab::kNoRow ? BucketIndex::kFurther : index_.Second(lines_[k], tags_[k]);
  }

 private:
  static constexpr RowHeader kNoRowHeader = {.id = RowSlab::kNoRow};

  const BucketIndex::View index_;
  BucketIndex::Line* lines_[kScanIdsMax + kAhead];
  uint8_t tags_[kScanIdsMax];
};
template <size_t kAhead>
[[gnu::always_inline]] inline LineGuesses<kAhead> GuessesOf(const BucketIndex::View& index,
                                                            const uint64_t* ids, size_t n) {
  return {index, ids, n};
}

// The same where it is known where the rows were: RowSlab's place of ids[k] is places[k].
struct PlaceGuesses {
  const uint32_t* places;
  BucketIndex::View index;
  [[gnu::always_inline]] void Ask(size_t) const {}
  [[gnu::always_inline]] RowHeader* Of(const RowSlab::View& rows, size_t k) const {
    return &rows.at(places[k]);
  }
  uint32_t Second(size_t, uint64_t id) const {
    PrefetchLine(index.HomeLine(BucketIndex::HashOf(id)));
    return BucketIndex::kFurther;
  }
};
template <size_t kAhead>
[[gnu::always_inline]] inline PlaceGuesses GuessesOf(PlaceGuesses places, const uint64_t*, size_t) {
  return places;
}

// An id whose row was not where it was looked for first.
struct LateId {
  uint32_t k;
  uint32_t slot;  // As of BucketIndex::View::Second.
};

// For at most kScanIdsMax ids. `from` is the index or PlaceGuesses. It returns how many it set
// aside in `late`, with the row that is to be looked at next on its way.
template <size_t kBlock, size_t kRowAhead, typename From, typename Lines, typename OnHit>
[[gnu::always_inline]] inline size_t ScanGuesses(ScanBlock<kBlock, kRowAhead>, const From from,
                                                 const RowSlab::View rows, const uint64_t* ids,
                                                 size_t n, Lines used, const OnHit on_hit,
                                                 LateId* late) {
  constexpr size_t kLineAhead = kRowAhead + 16;
  const auto first = GuessesOf<kLineAhead>(from, ids, n);
  RowHeader* guesses[kScanIdsMax];
  size_t lates = 0;
  auto guess = [&](size_t k) __attribute__((always_inline)) {
    guesses[k] = first.Of(rows, k);
    PrefetchRow(guesses[k], used);
  };
  auto use = [&](size_t k) __attribute__((always_inline)) {
    // A guess may be a slot without a row; the id of such a one is looked for later.
    if (guesses[k]->id == ids[k] && ids[k] != RowSlab::kNoRow) [[likely]] {
      on_hit(k, guesses[k]);
    } else {
      const uint32_t slot = first.Second(k, ids[k]);
      if (slot < BucketIndex::kFurther) PrefetchRow(&rows.row(slot), used);
      late[lates++] = {static_cast<uint32_t>(k), slot};
    }
  };
  for (size_t k = 0; k < kLineAhead; ++k) first.Ask(k);
  for (size_t k = 0; k < std::min(n, kRowAhead); ++k) guess(k);
  size_t k = 0;
  for (; k + kRowAhead + kBlock <= n; k += kBlock) {
    for (size_t b = k; b < k + kBlock; ++b) {
      first.Ask(b + kLineAhead);
      guess(b + kRowAhead);
    }
    for (size_t b = k; b < k + kBlock; ++b) use(b);
  }
  for (size_t b = k + kRowAhead; b < n; ++b) guess(b);
  for (; k < n; ++k) use(k);
  return lates;
}

// The same code with other registers. Only where the machine has avx2.
template <typename... Args>
[[gnu::target("avx2"), gnu::noinline]] size_t ScanGuessesAvx2(Args... args) {
  return ScanGuesses(args...);
}
template <typename... Args>
[[gnu::noinline]] size_t ScanGuessesBase(Args... args) {
  return ScanGuesses(args...);
}

// Where rows are looked for first: in the index, or where ids[k]'s was, which is places[k].
struct InIndex {
  const BucketIndex::View& From(const BucketIndex::View& index, size_t) const { return index; }
};
struct AtPlaces {
  const uint32_t* places;
  PlaceGuesses From(const BucketIndex::View& index, size_t k) const { return {places + k, index}; }
};

// Calls on_hit(k, row) for every ids[k] that has a row in memory, and
// on_miss(k) for the others. `used` is what on_hit reads or writes of a row. `where` is InIndex or
// AtPlaces.
template <typename Block, typename Where, typename Lines, typename OnHit, typename OnMiss>
void ScanRows(Block block, Where where, const BucketIndex& index_now, const RowSlab& rows_now,
              std::span<const uint64_t> all, Lines used, const OnHit& on_hit,
              const OnMiss& on_miss) {
  const BucketIndex::View index = index_now.view();
  const RowSlab::View rows = rows_now.view();
  static const bool avx2 = BestInstructionSet() == InstructionSet::kAvx2;
  LateId late[kScanIdsMax];
  for (size_t first = 0; first < all.size(); first += kScanIdsMax) {
    const uint64_t* const ids = all.data() + first;
    const size_t n = std::min(kScanIdsMax, all.size() - first);
    auto hit = [ on_hit, first ](size_t k, RowHeader * row) __attribute__((always_inline)) {
      on_hit(first + k, row);
    };
    const auto from = where.From(index, first);
    const size_t lates = avx2 ? ScanGuessesAvx2(block, from, rows, ids, n, used, hit, late)
                              : ScanGuessesBase(block, from, rows, ids, n, used, hit, late);
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
