// RowSlab: fixed-size rows, one behind the other in a region that grows in
// place. A row never moves. Freed rows are reused, latest first.
//
// A row is a RowHeader of 20 bytes and a body whose bytes RowLayout gives
// their meaning.
//
// Thread safety: none; the stripe's lock guards it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "embedding_store/page_arena.h"
#include "embedding_store/row_layout.h"

namespace starling {

enum RowFlags : uint32_t {
  kRowUsed = 1,
  kRowReferenced = 2,  // Touched since the clock hand last passed.
  kRowInCold = 4,      // The cold tier holds a copy of this row.
  kRowDirty = 8,       // Changed since: the cold copy, if any, is outdated.
  kRowStepped = 16,    // Took its step of the update: dense call under way.
  kRowIdle = 32 | 64,  // Rounds of ageing since it was touched, up to 3.
  kRowAwaited = 128,   // Prefetched, and not stepped since: a batch is going to need it.
};

// The id stands beside the weights: a reader needs no other part.
struct __attribute__((packed, aligned(4))) RowHeader {
  uint32_t epoch = 0;       // Snapshot epoch of the last write.
  uint32_t event_time = 0;  // Seconds: latest event that touched the row; 0: unknown.
  uint32_t flags_frequency = 0;
  uint64_t id = 0;

  static constexpr uint32_t kFlagBits = 8;
  static constexpr uint32_t kFrequencyMax = (1u << (32 - kFlagBits)) - 1;

  uint32_t flags() const { return flags_frequency & 0xFF; }
  bool has(uint32_t flag) const { return (flags_frequency & flag) != 0; }
  void Set(uint32_t flags) { flags_frequency |= flags; }
  void Clear(uint32_t flags) { flags_frequency &= ~flags; }
  // For readers, several of which may hold the lock.
  void SetShared(uint32_t flags) {
    std::atomic_ref<uint32_t> bits(*reinterpret_cast<uint32_t*>(
        reinterpret_cast<char*>(this) + offsetof(RowHeader, flags_frequency)));
    if ((bits.load(std::memory_order_relaxed) & flags) != flags) {
      bits.fetch_or(flags, std::memory_order_relaxed);
    }
  }
  static constexpr uint32_t kIdleUnit = 32, kIdleMax = 3;
  uint32_t idle() const { return (flags_frequency & kRowIdle) / kIdleUnit; }
  void RaiseIdle() {
    if (idle() < kIdleMax) flags_frequency += kIdleUnit;
  }
  uint32_t frequency() const { return flags_frequency >> kFlagBits; }
  void set_frequency(uint64_t frequency) {
    const auto kept = static_cast<uint32_t>(std::min<uint64_t>(frequency, kFrequencyMax));
    flags_frequency = flags() | kept << kFlagBits;
  }
  // Adds to the frequency, as far as it goes, and sets flags.
  void AddSights(uint32_t sights, uint32_t flags) {
    const uint64_t sum = (flags_frequency | flags) + (uint64_t{sights} << kFlagBits);
    flags_frequency = sum >> 32 == 0 ? static_cast<uint32_t>(sum)
                                     : kFrequencyMax << kFlagBits | static_cast<uint8_t>(sum);
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
  // The id of slot 0 before its first row, and of slots whose row was freed. It
  // is also a valid id of rows.
  static constexpr uint64_t kNoRow = ~uint64_t{0};

  // `body_bytes` is a multiple of 4; it grows by about `step_bytes`, by one row
  // at least.
  RowSlab(int body_bytes, PageRegion region, int64_t step_bytes)
      : stride_(static_cast<int64_t>(sizeof(RowHeader)) + body_bytes),
        step_(std::max<int64_t>(step_bytes / stride_, 1)),
        region_(region) {}

  // Slots that Allocate can give without growth.
  int64_t free_slots() const { return capacity_ - rows_; }
  // What Grow adds to bytes().
  int64_t growth_bytes() const { return step_ * stride_; }
  // False if the region is used up.
  bool Grow() {
    if (bytes() + growth_bytes() > region_.reserved()) return false;
    region_.Populate(bytes(), bytes() + growth_bytes());
    capacity_ += step_;
    if (next_ == 0) row(0).id = kNoRow;
    return true;
  }

  // Turns a page of the rows there are into a huge one, if there is one to turn.
  bool HasFullPages() const { return region_.HasFullPages(next_ * stride_); }
  void MakeHuge() { region_.MakeHuge(next_ * stride_); }

  // So many rows will soon be made in an empty slab.
  void ExpectRows(int64_t rows) {
    if (next_ == 0) region_.ExpectWrites(rows * stride_, bytes());
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
    row(slot) = {.flags_frequency = kRowUsed | kRowReferenced, .id = id};
    return slot;
  }
  void Free(uint32_t slot) {
    row(slot) = {.epoch = free_, .id = kNoRow};  // The list runs through the epochs of free rows.
    free_ = slot;
    --rows_;
  }
  RowHeader& row(uint32_t slot) const { return view().row(slot); }
  // Where a row stands, in four-byte steps; 0 if that is too far out to be told.
  uint32_t PlaceOf(const RowHeader* row) const {
    const int64_t steps = (reinterpret_cast<const char*>(row) - region_.data()) / kPlaceBytes;
    return steps <= int64_t{0xFFFFFFFF} ? static_cast<uint32_t>(steps) : 0;
  }
  // The rows there are now; see BucketIndex::View.
  struct View {
    char* rows;
    int64_t stride;
    int64_t used;  // Bytes of slots ever used.
    RowHeader& row(uint32_t slot) const {
      return *reinterpret_cast<RowHeader*>(rows + slot * stride);
    }
    // What is at a place now: perhaps another row than was there, or none. The first slot, if the
    // place is none of this slab's.
    RowHeader& at(uint32_t place) const {
      const int64_t from = int64_t{place} * kPlaceBytes;
      return *reinterpret_cast<RowHeader*>(rows + (from < used ? from : 0));
    }
  };
  View view() const { return {region_.data(), stride_, next_ * stride_}; }

  int64_t rows() const { return rows_; }
  int64_t stride() const { return stride_; }
  uint32_t slots() const { return next_; }  // Slots ever used: row(s) is valid below it.
  int64_t bytes() const { return capacity_ * stride_; }

 private:
  static constexpr uint32_t kNoSlot = 0xFFFFFFFF;
  static constexpr int64_t kPlaceBytes = 4;  // Of which rows are a multiple.

  const int64_t stride_;
  const int64_t step_;  // Rows.
  PageRegion region_;
  int64_t capacity_ = 0;
  int64_t rows_ = 0;
  uint32_t next_ = 0;        // First slot never used.
  uint32_t free_ = kNoSlot;  // Head of the list of freed slots.
};

}  // namespace starling
