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

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "embedding_store/page_arena.h"
#include "embedding_store/prefetch.h"

namespace starling {

class BucketIndex {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  // A chunk is about `chunk_bytes`: a power of two of lines. The arena
  // outlives the index. Without a first chunk, room() stays 0.
  BucketIndex(PageArena* arena, int64_t chunk_bytes);

  // Spreads ids that are hashes already, and ids that are small numbers.
  static uint64_t HashOf(uint64_t id) { return (id ^ id >> 32) * 0x9FB21C651E98DF25ull; }

  // A search in steps, each for many ids before the next, so that the memory
  // they wait for is on its way at once:
  //   Begin   brings the id's home line into cache.
  //   Guess   the first slot whose tag fits there, or kNone: most likely what
  //           Find will return, if it is the only one (*sure).
  //   Others  if not sure, calls prefetch(slot) for all that fit, here and in
  //           the next line.
  //   Find    the slot for which is_it(slot) holds, among those whose tag
  //           fits, here or in a later line; or kNone.
  struct Probe {
    const void* line;
    uint64_t hash;
  };
  Probe Begin(uint64_t id) const {
    const uint64_t hash = HashOf(id);
    const Line& line = LineAt(Home(hash));
    PrefetchLine(&line);
    return {&line, hash};
  }
  uint32_t Guess(const Probe& probe, bool* sure) const {
    const Line& line = *static_cast<const Line*>(probe.line);
    const uint32_t fits = Matches(line, probe.hash);
    *sure = fits != 0 && (fits & (fits - 1)) == 0;
    const uint32_t slot = line.slots[std::countr_zero(fits | 1u << (kEntries - 1))];
    return fits != 0 ? slot : kNone;
  }
  template <typename Prefetch>
  void Others(const Probe& probe, const Prefetch& prefetch) const {
    auto all = [&](const Line& line) {
      for (uint32_t fits = Matches(line, probe.hash); fits != 0; fits &= fits - 1) {
        prefetch(line.slots[std::countr_zero(fits)]);
      }
    };
    const Line& line = *static_cast<const Line*>(probe.line);
    all(line);
    if (line.passed > 0) all(LineAt(Next(Home(probe.hash))));
  }
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
    uint8_t tags[kEntries];  // 0: none. Entries come first, without a gap.
    uint16_t used;
    uint16_t passed;  // Entries whose home is here or before, and which live further on.
    uint32_t slots[kEntries];
  };
  static_assert(sizeof(Line) == 64);

  Line& LineAt(uint32_t line) const { return chunks_[line >> shift_][line & mask_]; }
  int64_t chunk_bytes() const { return int64_t{sizeof(Line)} << shift_; }
  int64_t ChunksFor(int64_t lines) const { return (lines + mask_) >> shift_; }
  static uint8_t Tag(uint64_t hash) {
    return std::max<uint8_t>(static_cast<uint8_t>(hash >> 16), 1);
  }
  uint32_t Home(uint64_t hash) const {
    return static_cast<uint32_t>(((hash >> 32) * lines_) >> 32);
  }
  uint32_t Next(uint32_t line) const { return line + 1 == lines_ ? 0 : line + 1; }
  static uint32_t Matches(const Line& line, uint64_t hash) {
    const __m128i tags = _mm_load_si128(reinterpret_cast<const __m128i*>(line.tags));
    const __m128i wanted = _mm_set1_epi8(static_cast<char>(Tag(hash)));
    return _mm_movemask_epi8(_mm_cmpeq_epi8(tags, wanted)) & ((1u << kEntries) - 1);
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
