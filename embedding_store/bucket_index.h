// BucketIndex: id -> slot, open addressing over cache lines of twelve entries,
// so that nearly every search touches one line and then the row it wants. An
// entry is a one-byte tag and the slot; the id itself stands in the row, where
// the caller compares it. About 7 bytes a row.
//
// An entry that does not fit its home line lives in a later one; every line
// counts the entries that passed over it, so a search knows where to stop and
// an erase leaves no tombstone behind.
//
// It grows by a fifth at a time, in place, by chunks of an arena: the rows are
// the truth, and the caller enters them anew. So there is never a second copy,
// nor an index that is half empty.
//
// Thread safety: none; the stripe's lock guards it.
#pragma once

#include <emmintrin.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "embedding_store/page_arena.h"
#include "embedding_store/prefetch.h"

namespace starling {

class BucketIndex {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  // A chunk is about `chunk_bytes`: a power of two of lines. The arena
  // outlives the index. Without a first chunk, room() stays 0.
  BucketIndex(PageArena* arena, int64_t chunk_bytes);

  static uint64_t HashOf(uint64_t id) { return Mix64(id); }

  // Brings the line of an id into cache ahead of a search.
  void Prefetch(uint64_t hash) const { PrefetchLine(&LineAt(Home(hash))); }
  // The first slot whose tag fits in the home line: most likely what Find will
  // return. Calls prefetch(slot) for all of them. kNone: no tag fits, and if
  // the entry lives in the next line, that is on its way into cache.
  template <typename Prefetch>
  uint32_t Guess(uint64_t hash, const Prefetch& prefetch) const {
    const uint32_t home = Home(hash);
    const Line& line = LineAt(home);
    uint32_t fits = Matches(line, hash);
    if (fits == 0) [[unlikely]] {
      if (line.passed > 0) PrefetchLine(&LineAt(Next(home)));
      return kNone;
    }
    const uint32_t first = line.slots[std::countr_zero(fits)];
    prefetch(first);
    while ((fits &= fits - 1) != 0) prefetch(line.slots[std::countr_zero(fits)]);
    return first;
  }
  // After Guess gave kNone: the same for the next line.
  template <typename Prefetch>
  void GuessNext(uint64_t hash, const Prefetch& prefetch) const {
    const uint32_t home = Home(hash);
    if (LineAt(home).passed == 0) return;
    const Line& line = LineAt(Next(home));
    for (uint32_t fits = Matches(line, hash); fits != 0; fits &= fits - 1) {
      prefetch(line.slots[std::countr_zero(fits)]);
    }
  }
  // The slot for which is_it(slot) holds, among those whose tag fits; or kNone.
  template <typename IsIt>
  uint32_t Find(uint64_t hash, const IsIt& is_it) const {
    const uint32_t home = Home(hash);
    uint32_t l = home;
    do {
      const Line& line = LineAt(l);
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
  int64_t growth_bytes() const {
    return (ChunksFor(GrownLines()) - static_cast<int64_t>(chunks_.size())) * chunk_bytes();
  }
  // Makes room and forgets all entries: the caller inserts them again. False,
  // with nothing changed, if there is no room to be had.
  bool Grow();

  int64_t size() const { return size_; }
  int64_t bytes() const { return static_cast<int64_t>(chunks_.size()) * chunk_bytes(); }

 private:
  static constexpr uint32_t kEntries = 12;
  struct alignas(64) Line {
    uint8_t tags[kEntries];
    uint16_t used;
    uint16_t passed;  // Entries whose home is here or before, and which live further on.
    uint32_t slots[kEntries];
  };
  static_assert(sizeof(Line) == 64);

  Line& LineAt(uint32_t line) const { return chunks_[line >> shift_][line & mask_]; }
  int64_t chunk_bytes() const { return int64_t{sizeof(Line)} << shift_; }
  int64_t ChunksFor(int64_t lines) const { return (lines + mask_) >> shift_; }
  static uint8_t Tag(uint64_t hash) { return static_cast<uint8_t>(hash); }
  // Bits 8 to 39: the top bits of an id chose its stripe.
  uint32_t Home(uint64_t hash) const {
    return static_cast<uint32_t>(((hash >> 8 & 0xFFFFFFFF) * lines_) >> 32);
  }
  uint32_t Next(uint32_t line) const { return line + 1 == lines_ ? 0 : line + 1; }
  static uint32_t Matches(const Line& line, uint64_t hash) {
    const __m128i tags = _mm_load_si128(reinterpret_cast<const __m128i*>(line.tags));
    const __m128i wanted = _mm_set1_epi8(static_cast<char>(Tag(hash)));
    return _mm_movemask_epi8(_mm_cmpeq_epi8(tags, wanted)) & ((1u << line.used) - 1);
  }
  int64_t GrownLines() const;
  void SetLines(int64_t count);

  PageArena* const arena_;
  const int shift_;  // Of a line's number, to its chunk.
  const uint32_t mask_;
  std::vector<Line*> chunks_;
  uint64_t lines_ = 0;
  int64_t size_ = 0;
  int64_t size_max_ = 0;
};

}  // namespace starling
