// ScanRows: the rows of many ids, found so that the memory is seldom idle. Some hundred ids at a
// time go through passes, each a loop of few instructions: index lines are asked for; by
// these, rows are asked for; rows are used. A prefetch waits until its address is translated, and
// the processor looks only some 300 instructions ahead: what stands between two prefetches costs
// more than its own time. L2 holds what a pass has asked for until the next, and takes in
// more lines at a time than L1.
//
// The few ids whose row is not what their home line or the one after it made expect (further on,
// behind another id of the same tag, or nowhere) are set aside and searched for together:
// waiting for each would cost more than all the others.
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

// Ids of a pass; fewer, if their rows are large.
inline constexpr size_t kScanIdsMax = 512, kScanIdsMin = 32, kScanBytes = 128 << 10;
inline size_t ScanIdsOf(int64_t row_bytes) {
  return std::clamp(kScanBytes / static_cast<size_t>(row_bytes + 64), kScanIdsMin, kScanIdsMax);
}

// Expects rows where the index has them.
class IndexGuesses {
 public:
  explicit IndexGuesses(const BucketIndex::View& index) : index_(index) {}

  // Asks for what Expect needs for ids[0, n).
  [[gnu::always_inline]] void Ask(const uint64_t* ids, size_t n) {
    Asked& asked = asked_[next_];
    next_ ^= 1;
    for (size_t k = 0; k < n; ++k) {
      const uint64_t hash = BucketIndex::HashOf(ids[k]);
      asked.lines[k] = index_.HomeLine(hash);
      asked.tags[k] = BucketIndex::View::Tag(hash);
    }
    for (size_t k = 0; k < n; ++k) PrefetchIntoL2(asked.lines[k]);
  }
  // Where the rows of the ids that the last Ask was for probably are. expected[k] is never null.
  [[gnu::always_inline]] void Expect(const RowSlab::View& rows, size_t n, RowHeader** expected) {
    const Asked& asked = asked_[next_ ^ 1];
    size_t others = 0;
    for (size_t k = 0; k < n; ++k) {
      const uint32_t fits = BucketIndex::View::Fits(*asked.lines[k], asked.tags[k]);
      if (fits == 0) [[unlikely]] {
        PrefetchIntoL2(index_.LineAfter(asked.lines[k]));
        others_[others++] = static_cast<uint16_t>(k);
        continue;
      }
      expected[k] = &rows.row(asked.lines[k]->slots[std::countr_zero(fits)]);
    }
    for (size_t i = 0; i < others; ++i) {
      const size_t k = others_[i];
      const uint32_t slot =
          index_.Next(asked.lines[k], asked.tags[k], [](uint32_t) { return true; });
      expected[k] =
          slot < BucketIndex::kFurther ? &rows.row(slot) : const_cast<RowHeader*>(&kNoRowHeader);
    }
  }
  // The next two are for the ids of the Ask before the last.
  // Asks for what Next needs for ids[k].
  void AskNext(size_t, uint64_t) const {}
  // BucketIndex::View::Next for ids[k].
  template <typename Wanted>
  uint32_t Next(size_t k, uint64_t, const Wanted& wanted) const {
    return index_.Next(asked_[next_].lines[k], asked_[next_].tags[k], wanted);
  }

 private:
  static constexpr RowHeader kNoRowHeader = {.id = RowSlab::kNoRow};
  struct Asked {
    BucketIndex::Line* lines[kScanIdsMax];
    uint8_t tags[kScanIdsMax];
  };

  const BucketIndex::View index_;
  int next_ = 0;
  Asked asked_[2];
  uint16_t others_[kScanIdsMax];
};

// Expects rows where they were: RowSlab's place of ids[k] is places[k].
struct PlaceGuesses {
  const uint32_t* places;
  BucketIndex::View index;
  void Ask(const uint64_t*, size_t) const {}
  [[gnu::always_inline]] void Expect(const RowSlab::View& rows, size_t n, RowHeader** expected) {
    for (size_t k = 0; k < n; ++k) expected[k] = &rows.at(places[k]);
    places += n;
  }
  void AskNext(size_t, uint64_t id) const {
    PrefetchIntoL2(index.HomeLine(BucketIndex::HashOf(id)));
  }
  template <typename Wanted>
  uint32_t Next(size_t, uint64_t id, const Wanted& wanted) const {
    const uint64_t hash = BucketIndex::HashOf(id);
    return index.Next(index.HomeLine(hash), BucketIndex::View::Tag(hash), wanted);
  }
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

// For n ids, which `guesses` was asked for; `after` ids follow. It returns how many it set
// aside in `late`, with the row that is to be looked at next on its way.
template <typename Guesses, typename Lines, typename OnHit>
[[gnu::always_inline]] inline size_t ScanPass(Guesses* guesses, const RowSlab::View rows,
                                              const uint64_t* ids, size_t n, size_t after,
                                              Lines used, const OnHit on_hit, LateId* late) {
  RowHeader* expected[kScanIdsMax];
  guesses->Expect(rows, n, expected);
  for (size_t k = 0; k < n; ++k) PrefetchRow(expected[k], used);
  guesses->Ask(ids + n, after);
  size_t lates = 0;
  for (size_t k = 0; k < n; ++k) {
    // What is expected may be a slot without a row; the id of such a one is looked for later.
    if (expected[k]->id == ids[k] && ids[k] != RowSlab::kNoRow) [[likely]] {
      on_hit(k, expected[k]);
    } else {
      late[lates++].k = static_cast<uint32_t>(k);
    }
  }
  for (size_t i = 0; i < lates; ++i) guesses->AskNext(late[i].k, ids[late[i].k]);
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
  const size_t at_once = ScanIdsOf(used.end);
  const auto ids_from = [&](size_t first) { return std::min(at_once, all.size() - first); };
  auto guesses = where.From(index);
  guesses.Ask(all.data(), ids_from(0));
  LateId late[kScanIdsMax];
  for (size_t first = 0; first < all.size(); first += at_once) {
    const uint64_t* const ids = all.data() + first;
    const size_t n = ids_from(first), after = ids_from(first + n);
    auto hit = [ on_hit, first ](size_t k, RowHeader * row) __attribute__((always_inline)) {
      on_hit(first + k, row);
    };
    const size_t lates = avx2 ? ScanPassAvx2(&guesses, rows, ids, n, after, used, hit, late)
                              : ScanPassBase(&guesses, rows, ids, n, after, used, hit, late);
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
