// What the rows of a training batch have in common: slots in which few distinct
// vectors serve all rows (a field of few ids, a request's features). A product of
// such a slot's columns with weights is computed once a vector and added up by
// row, its gradient summed by vector first (shared_product.h). Not thread safe: found
// once a step, then only read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dense_net/ops.h"

namespace starling {

struct SharedSlot {
  int column = 0, dim = 0;                  // Its columns of the embedding.
  int offset = 0;                           // Of the embedding in the table's rows.
  int count = 0;                            // Distinct vectors; after them stands one of zeros.
  int64_t first = 0;                        // Of its vectors among those of all shared slots.
  SlotView vectors;                         // Entry i pools to vector i.
  const uint32_t* vector_of_row = nullptr;  // (rows); `count`: no value.
  const uint32_t* first_row = nullptr;      // (count): a row that has it; `rows`: none has.
};

struct SharedSlots {
  std::vector<SharedSlot> slots;  // By column.
  std::vector<ColumnRange> rest;  // The embedding's other columns, in order.
  int64_t vectors = 0;            // Of all slots, zeros included.
  Real* gradient = nullptr;       // Of the embedding, (rows + 1, stride).
  int64_t stride = 0;

  // By the batch and `sharing` alone. Memory is reused from batch to batch.
  void Find(const Step& step, std::span<const SlotSpec> specs, Sharing sharing);

 private:
  struct Lists {
    std::vector<uint32_t> vector_of_row, first_row, ids;
  };
  bool FindIds(const Batch& batch, int64_t most, Lists* lists, SharedSlot* found);

  std::vector<Lists> lists_;     // One a slot, which points into them.
  std::vector<uint32_t> local_;  // By id: its vector, within FindIds.
  std::vector<uint32_t> iota_;
};

}  // namespace starling
