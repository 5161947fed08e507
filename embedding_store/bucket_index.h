// BucketIndex: id -> slot, open addressing over cache lines of twelve entries,
// so that nearly every search touches one line and then the row it wants. An
// entry is a one-byte tag and the slot; the id itself stands in the row, where
// the caller compares it. About 7 bytes a row.
//
// An entry that does not fit its home line lives in a later one; every line
// counts the entries that passed over it, so a search knows where to stop and
// an erase leaves no tombstone behind.
//
// It grows by a fifth at a time, in place: the rows are the truth, and the
// caller enters them anew. So there is never a second copy, nor an index that
// is half empty.
//
// Thread safety: none; the stripe's lock guards it. Prefetch alone may race.
#pragma once

#include <emmintrin.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/random.h"
#include "embedding_store/page_region.h"

namespace starling {

class BucketIndex {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  // `reserve_bytes` bounds what it can grow to.
  BucketIndex(int64_t reserve_bytes, int64_t step_bytes);

  static uint64_t HashOf(uint64_t id) { return Mix64(id); }

  // Brings the line of an id into cache ahead of a search.
  void Prefetch(uint64_t hash) const { __builtin_prefetch(&lines()[Home(hash)]); }
  // The first slot whose tag fits in the home line, or kNone: most likely what
  // Find will return, to bring the row into cache.
  uint32_t Guess(uint64_t hash) const {
    const Line& line = lines()[Home(hash)];
    const uint32_t fits = Matches(line, hash);
    return fits == 0 ? kNone : line.slots[std::countr_zero(fits)];
  }
  // The slot for which is_it(slot) holds, among those whose tag fits; or kNone.
  template <typename IsIt>
  uint32_t Find(uint64_t hash, const IsIt& is_it) const {
    const uint32_t home = Home(hash);
    uint32_t l = home;
    do {
      const Line& line = lines()[l];
      for (uint32_t fits = Matches(line, hash); fits != 0; fits &= fits - 1) {
        const uint32_t slot = line.slots[std::countr_zero(fits)];
        if (is_it(slot)) return slot;
      }
      if (line.passed == 0) return kNone;
      l = Next(l);
    } while (l != home);  // In a tiny index every line may have been passed.
    return kNone;
  }
  // REQUIRES: the id is absent, and room() > 0.
  void Insert(uint64_t hash, uint32_t slot);
  // REQUIRES: the entry is present.
  void Erase(uint64_t hash, uint32_t slot);

  // Entries that fit before it has to grow.
  int64_t room() const { return size_max_ - size_; }
  // Bytes that Grow adds to bytes().
  int64_t growth_bytes() const { return region_.GrowthTo(GrownLines() * int64_t{sizeof(Line)}); }
  // Makes room and forgets all entries: the caller inserts them again. False,
  // with nothing changed, if there is no room to be had.
  bool Grow();

  int64_t size() const { return size_; }
  int64_t bytes() const { return region_.committed(); }

 private:
  static constexpr uint32_t kEntries = 12;
  struct alignas(64) Line {
    uint8_t tags[kEntries];
    uint16_t used;
    uint16_t passed;  // Entries whose home is here or before, and which live further on.
    uint32_t slots[kEntries];
  };
  static_assert(sizeof(Line) == 64);

  Line* lines() const { return reinterpret_cast<Line*>(region_.data()); }
  static uint8_t Tag(uint64_t hash) { return static_cast<uint8_t>(hash); }
  // Bits 8 to 39: the top bits of an id chose its stripe.
  uint32_t Home(uint64_t hash) const {
    const uint64_t count = lines_count_.load(std::memory_order_relaxed);
    return static_cast<uint32_t>(((hash >> 8 & 0xFFFFFFFF) * count) >> 32);
  }
  uint32_t Next(uint32_t line) const {
    return line + 1 == lines_count_.load(std::memory_order_relaxed) ? 0 : line + 1;
  }
  static uint32_t Matches(const Line& line, uint64_t hash) {
    const __m128i tags = _mm_load_si128(reinterpret_cast<const __m128i*>(line.tags));
    const __m128i wanted = _mm_set1_epi8(static_cast<char>(Tag(hash)));
    return _mm_movemask_epi8(_mm_cmpeq_epi8(tags, wanted)) & ((1u << line.used) - 1);
  }
  int64_t GrownLines() const;
  void SetLines(int64_t count);

  PageRegion region_;
  std::atomic<uint32_t> lines_count_{0};
  int64_t size_ = 0;
  int64_t size_max_ = 0;
};

}  // namespace starling
