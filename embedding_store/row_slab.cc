#include "embedding_store/row_slab.h"

#include <bit>
#include <new>

namespace starling {

RowSlab::RowSlab(int floats, uint32_t chunk_rows)
    : floats_(floats),
      row_bytes_(RowBytes(floats)),
      chunk_shift_(std::countr_zero(chunk_rows)),
      chunk_mask_(chunk_rows - 1) {}

int64_t RowSlab::RowBytes(int floats) {
  int64_t bytes = static_cast<int64_t>(sizeof(Row) + floats * sizeof(float));
  return (bytes + 15) / 16 * 16;
}

uint32_t RowSlab::Allocate(uint64_t id) {
  uint32_t slot = free_;
  if (slot != kNoSlot) {
    free_ = row(slot).next_free;
  } else {
    if (growth_bytes() > 0) {
      auto* chunk = static_cast<char*>(::operator new (chunk_bytes(), std::align_val_t{64}));
      chunks_.emplace_back(chunk);
    }
    slot = next_++;
  }
  ++rows_;
  new (&row(slot)) Row{id, kRowUsed, kNoSlot, RowMeta{}};
  return slot;
}

void RowSlab::Free(uint32_t slot) {
  row(slot).flags = 0;
  row(slot).next_free = free_;
  free_ = slot;
  --rows_;
}

}  // namespace starling
