// BucketIndex: id -> slot, open addressing over cache lines of twelve entries,
// so that nearly every search touches one line and then the row it wants. An
// entry is a one-byte tag and the slot; the id itself stands in the row, where
// the caller compares it. About 7 bytes a row.
//
// An entry that does not fit its home line lives in a later one; every line
// counts the entries that passed over it, so a search knows where to stop and
// an erase leaves no tombstone behind.
//
// It grows by a fifth at a time, in place, in a region of its own: the rows
// are the truth, and the caller enters them anew. So there is never a second
// copy, nor an index that is half empty.
//
// Thread safety: none; the stripe's lock guards it.
#pragma once

#include <emmintrin.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/hash.h"
#include "base/prefetch.h"
#include "embedding_store/page_arena.h"

namespace starling {

class BucketIndex {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF, kFurther = kNone - 1;  // No slots.

  // It begins with about `first_bytes`; room() stays 0 if the region has less.
  // The buckets of all ids have their first `common_bits` bits in common.
  BucketIndex(PageRegion region, int64_t first_bytes, int common_bits);

  // Begins with the bucket: the home lines of ids in their order are in order too,
  // and a search for many ids walks through the index instead of jumping about.
  static uint64_t HashOf(uint64_t id) { return BucketHash(id); }

  static constexpr uint32_t kEntries = 12;
  struct alignas(64) Line {
    uint8_t tags[kEntries];  // 0: none. Entries come first, without a gap.
    uint16_t used;
    uint16_t passed;  // Entries whose home is here or before, and which live further on.
    uint32_t slots[kEntries];
  };
  static_assert(sizeof(Line) == 64);
  // The index as it is now, for as long as nobody changes it: a copy whose
  // numbers the compiler can keep in registers.
  class View {
   public:
    // A search in steps, each for some ids before the next, so that the memory
    // they wait for is on its way at once (stripe_scan.h):
    //   HomeLine  where it begins: to be brought into cache.
    //   Fits      a bit for each of its entries whose tag fits: the first one's slot is
    //             nearly always what Find will return.
    // and for the few ids where it is not:
    //   Next      the slot to look at next: the first that fits, from the home line on, and for
    //             which wanted(slot) holds. kNone: there is none; kFurther: Find has to tell.
    //   Find      the slot for which is_it(slot) holds, among those whose tag
    //             fits, here or in a later line; or kNone.
    Line* HomeLine(uint64_t hash) const {
      return lines_ + (((hash << common_bits_ >> 32) * count_) >> 32);
    }
    [[gnu::always_inline]] static uint32_t Fits(const Line& line, uint8_t tag) {
      const __m128i tags = _mm_load_si128(reinterpret_cast<const __m128i*>(line.tags));
      const __m128i same = _mm_cmpeq_epi8(tags, _mm_set1_epi8(static_cast<char>(tag)));
      return _mm_movemask_epi8(same) & ((1u << kEntries) - 1);
    }
    Line* LineAfter(Line* line) const { return line + 1 == lines_ + count_ ? lines_ : line + 1; }
    static uint8_t Tag(uint64_t hash) {
      // Bits that are not the home line's, and of which some differ also if
      // ids differ in their upper half alone.
      const uint64_t folded = hash ^ hash >> 32;
      return std::max<uint8_t>(static_cast<uint8_t>(folded ^ folded >> 8), 1);
    }
    template <typename Wanted>
    uint32_t Next(Line* home, uint8_t tag, const Wanted& wanted) const {
      constexpr int kLines = 4;
      Line* line = home;
      for (int i = 0; i < kLines; ++i, line = LineAfter(line)) {
        for (uint32_t fits = Fits(*line, tag); fits != 0; fits &= fits - 1) {
          const uint32_t slot = line->slots[std::countr_zero(fits)];
          if (wanted(slot)) return slot;
        }
        if (line->passed == 0) return kNone;
      }
      return kFurther;
    }
    template <typename IsIt>
    uint32_t Find(uint64_t hash, const IsIt& is_it) const {
      Line* const home = HomeLine(hash);
      Line* line = home;
      do {
        for (uint32_t fits = Matches(*line, hash); fits != 0; fits &= fits - 1) {
          const uint32_t slot = line->slots[std::countr_zero(fits)];
          if (is_it(slot)) return slot;
        }
        if (line->passed == 0) return kNone;
        line = LineAfter(line);
      } while (line != home);  // In a tiny index every line may have been passed.
      return kNone;
    }

   private:
    friend class BucketIndex;
    static uint32_t Matches(const Line& line, uint64_t hash) { return Fits(line, Tag(hash)); }

    Line* lines_;
    uint64_t count_;
    int common_bits_;
  };
  View view() const {
    View view;
    view.lines_ = reinterpret_cast<Line*>(region_.data());
    view.count_ = lines_;
    view.common_bits_ = common_bits_;
    return view;
  }

  // REQUIRES: the id is absent, and room() > 0.
  void Insert(uint64_t hash, uint32_t slot);
  // REQUIRES: the entry is present.
  void Erase(uint64_t hash, uint32_t slot);

  // Entries that fit before it has to grow.
  int64_t room() const { return size_max_ - size_; }
  // Bytes that Grow adds to bytes().
  int64_t growth_bytes() const { return (GrownLines() - lines_) * int64_t{sizeof(Line)}; }
  // Makes room and forgets all entries: the caller inserts them again. False,
  // with nothing changed, if there is no room to be had.
  bool Grow();

  int64_t size() const { return size_; }
  int64_t bytes() const { return lines_ * int64_t{sizeof(Line)}; }

 private:
  int64_t GrownLines() const;

  PageRegion region_;
  const int64_t first_lines_;
  const int common_bits_;
  int64_t lines_ = 0;
  int64_t size_ = 0;
  int64_t size_max_ = 0;
};

}  // namespace starling
