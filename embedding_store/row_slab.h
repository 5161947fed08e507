// RowSlab: fixed-size rows in chunks of an arena. It grows a chunk at a time
// and a row never moves. Freed rows are reused, latest first.
//
// A row is a RowHeader of 20 bytes and a body whose bytes RowLayout gives
// their meaning.
//
// Thread safety: none; the stripe's lock guards it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "embedding_store/page_arena.h"
#include "embedding_store/prefetch.h"
#include "embedding_store/row_layout.h"

namespace starling {

enum RowFlags : uint32_t {
  kRowUsed = 1,
  kRowReferenced = 2,  // Touched since the clock hand last passed.
  kRowInCold = 4,      // The cold tier holds a copy of this row.
  kRowDirty = 8,       // Changed since: the cold copy, if any, is outdated.
  kRowStepped = 16,    // Took its step of the update: dense call under way.
};

struct __attribute__((packed, aligned(4))) RowHeader {
  uint64_t id;
  uint32_t event_time;  // Seconds: latest event that touched the row; 0: unknown.
  uint32_t flags_frequency;
  uint32_t epoch;  // Snapshot epoch of the last write.

  static constexpr uint32_t kFlagBits = 8;
  static constexpr uint32_t kFrequencyMax = (1u << (32 - kFlagBits)) - 1;

  uint32_t flags() const { return flags_frequency & 0xFF; }
  bool has(uint32_t flag) const { return (flags_frequency & flag) != 0; }
  void Set(uint32_t flags) { flags_frequency |= flags; }
  void Clear(uint32_t flags) { flags_frequency &= ~flags; }
  uint32_t frequency() const { return flags_frequency >> kFlagBits; }
  void set_frequency(uint64_t frequency) {
    const auto kept = static_cast<uint32_t>(std::min<uint64_t>(frequency, kFrequencyMax));
    flags_frequency = flags() | kept << kFlagBits;
  }
  RowMeta meta() const { return {event_time, frequency(), epoch}; }
  void set_meta(const RowMeta& meta) {
    event_time = static_cast<uint32_t>(std::clamp<int64_t>(meta.event_time, 0, 0xFFFFFFFF));
    set_frequency(meta.frequency);
    epoch = meta.epoch;
  }
  char* body() { return reinterpret_cast<char*>(this + 1); }
  const char* body() const { return reinterpret_cast<const char*>(this + 1); }
};
static_assert(sizeof(RowHeader) == 20);

class RowSlab {
 public:
  // `body_bytes` is a multiple of 4; a chunk is a power of two of rows, at
  // most `chunk_bytes` long if that holds one. The arena outlives the slab.
  RowSlab(int body_bytes, PageArena* arena, int64_t chunk_bytes)
      : stride_(static_cast<int64_t>(sizeof(RowHeader)) + body_bytes),
        shift_(std::bit_width<uint64_t>(std::max<int64_t>(chunk_bytes / stride_, 1)) - 1),
        mask_((1u << shift_) - 1),
        arena_(arena) {}

  // Slots that Allocate can give without growth.
  int64_t free_slots() const { return capacity() - rows_; }
  // What Grow adds to bytes().
  int64_t growth_bytes() const { return ((stride_ << shift_) + 63) & ~int64_t{63}; }
  // Adds a chunk; false if the arena is used up.
  bool Grow() {
    char* chunk = arena_->Allocate(stride_ << shift_);
    if (chunk == nullptr) return false;
    chunks_.push_back(chunk);
    return true;
  }

  // A row with only its id, kRowUsed and kRowReferenced set; its body is not
  // initialised. REQUIRES: free_slots() > 0.
  uint32_t Allocate(uint64_t id) {
    uint32_t slot = free_;
    if (slot != kNoSlot) {
      free_ = row(slot).epoch;
    } else {
      slot = next_++;
    }
    ++rows_;
    row(slot) = {id, 0, kRowUsed | kRowReferenced, 0};
    return slot;
  }
  void Free(uint32_t slot) {
    row(slot) = {0, 0, 0, free_};  // The list runs through the epochs of free rows.
    free_ = slot;
    --rows_;
  }
  RowHeader& row(uint32_t slot) const { return *reinterpret_cast<RowHeader*>(Address(slot)); }
  // Brings the first `bytes` of a row into cache.
  void Prefetch(uint32_t slot, int64_t bytes) const {
    const char* row = Address(slot);
    const char* last = row + bytes - 1;
    for (; row < last; row += 64) PrefetchLine(row);
    PrefetchLine(last);
  }

  int64_t rows() const { return rows_; }
  int64_t stride() const { return stride_; }
  uint32_t slots() const { return next_; }  // Slots ever used: row(s) is valid below it.
  int64_t bytes() const { return static_cast<int64_t>(chunks_.size()) * growth_bytes(); }

 private:
  static constexpr uint32_t kNoSlot = 0xFFFFFFFF;

  int64_t capacity() const { return static_cast<int64_t>(chunks_.size()) << shift_; }
  char* Address(uint32_t slot) const {
    return chunks_[slot >> shift_] + static_cast<int64_t>(slot & mask_) * stride_;
  }

  const int64_t stride_;
  const int shift_;  // Of a slot, to its chunk.
  const uint32_t mask_;
  PageArena* const arena_;
  std::vector<char*> chunks_;
  int64_t rows_ = 0;
  uint32_t next_ = 0;        // First slot never used.
  uint32_t free_ = kNoSlot;  // Head of the list of freed slots.
};

}  // namespace starling
