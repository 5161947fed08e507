// RowSlab: fixed-size rows in chunks. It grows by one chunk at a time, so there
// is no moment with twice the memory, and a row never moves. Chunks are kept
// until the slab is destroyed; freed rows are reused, latest first.
//
// Thread safety: none; the stripe's lock guards it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "embedding_store/row_layout.h"

namespace starling {

enum RowFlags : uint32_t {
  kRowUsed = 1,
  kRowReferenced = 2,  // Touched since the clock hand last passed.
  kRowInCold = 4,      // The cold tier holds an older copy; this one wins.
  kRowStepped = 8,     // Took its step of the update: dense call under way.
};

class RowSlab {
 public:
  struct Row {
    uint64_t id;
    uint32_t flags;
    uint32_t next_free;
    RowMeta meta;
    float* data() { return reinterpret_cast<float*>(this + 1); }
    const float* data() const { return reinterpret_cast<const float*>(this + 1); }
  };
  static_assert(sizeof(Row) == 32);

  // `chunk_rows` is a power of two.
  RowSlab(int floats, uint32_t chunk_rows);

  static int64_t RowBytes(int floats);

  // A slot with its flags and meta zeroed but for kRowUsed; floats are not initialised.
  uint32_t Allocate(uint64_t id);
  void Free(uint32_t slot);
  Row& row(uint32_t slot) const {
    return *reinterpret_cast<Row*>(chunks_[slot >> chunk_shift_].get() +
                                   (slot & chunk_mask_) * row_bytes_);
  }
  std::span<float> floats(uint32_t slot) const {
    return {row(slot).data(), static_cast<size_t>(floats_)};
  }
  // Brings the row into cache; `weights` floats of it will be read or written.
  void Prefetch(uint32_t slot, int weights) const {
    const char* p = reinterpret_cast<const char*>(&row(slot));
    const char* end = p + sizeof(Row) + weights * sizeof(float);
    for (; p < end; p += 64) __builtin_prefetch(p);
  }

  int64_t rows() const { return rows_; }
  uint32_t slots() const { return next_; }  // Slots ever used: row(s) is valid below it.
  int64_t bytes() const { return static_cast<int64_t>(chunks_.size()) * chunk_bytes(); }
  // What the next Allocate adds to bytes().
  int64_t growth_bytes() const {
    return free_ == kNoSlot && next_ == chunks_.size() << chunk_shift_ ? chunk_bytes() : 0;
  }

 private:
  static constexpr uint32_t kNoSlot = 0xFFFFFFFF;
  struct FreeChunk {
    void operator()(char* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  int64_t chunk_bytes() const { return row_bytes_ * (int64_t{1} << chunk_shift_); }

  const int floats_;
  const int64_t row_bytes_;
  const int chunk_shift_;
  const uint32_t chunk_mask_;
  std::vector<std::unique_ptr<char, FreeChunk>> chunks_;
  int64_t rows_ = 0;
  uint32_t next_ = 0;        // First slot never used.
  uint32_t free_ = kNoSlot;  // Head of the list of freed slots.
};

}  // namespace starling
