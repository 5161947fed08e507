// RowSlab: fixed-size rows, one behind the other in a PageRegion. It grows a
// step at a time and a row never moves. Freed rows are reused, latest first.
//
// A row is a RowHeader of 20 bytes and a body whose bytes RowLayout gives
// their meaning.
//
// Thread safety: none; the stripe's lock guards it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "embedding_store/page_region.h"
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
  // `body_bytes` is a multiple of 4.
  RowSlab(int body_bytes, int64_t reserve_bytes, int64_t step_bytes)
      : stride_(static_cast<int64_t>(sizeof(RowHeader)) + body_bytes),
        region_(reserve_bytes, step_bytes) {}

  // Slots that Allocate can give without growth.
  int64_t free_slots() const { return capacity_ - rows_; }
  // What growing by a step adds to bytes().
  int64_t growth_bytes() const { return region_.GrowthTo((capacity_ + 1) * stride_); }
  bool Grow() {
    const bool grown = region_.Grow((capacity_ + 1) * stride_);
    capacity_ = region_.committed() / stride_;
    return grown;
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
  RowHeader& row(uint32_t slot) const {
    return *reinterpret_cast<RowHeader*>(region_.data() + slot * stride_);
  }
  // Brings the first `bytes` of a row into cache.
  void Prefetch(uint32_t slot, int64_t bytes) const {
    const char* p = region_.data() + slot * stride_;
    const char* end = p + bytes;
    for (p = reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(p) & ~uintptr_t{63});
         p < end; p += 64) {
      __builtin_prefetch(p);
    }
  }

  int64_t rows() const { return rows_; }
  int64_t stride() const { return stride_; }
  uint32_t slots() const { return next_; }  // Slots ever used: row(s) is valid below it.
  int64_t bytes() const { return region_.committed(); }

 private:
  static constexpr uint32_t kNoSlot = 0xFFFFFFFF;

  const int64_t stride_;
  PageRegion region_;
  int64_t capacity_ = 0;  // Slots in committed memory.
  int64_t rows_ = 0;
  uint32_t next_ = 0;        // First slot never used.
  uint32_t free_ = kNoSlot;  // Head of the list of freed slots.
};

}  // namespace starling
