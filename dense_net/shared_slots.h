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

// A slot's part of the vectors.
struct SharedPart {
  SlotView entries;  // Entry i pools to the part's columns of vector i.
  int offset = 0;    // Of the embedding in the table's rows.
  int dim = 0;
};

// A slot; or, of a request's features, all that stand side by side: they have one vector.
struct SharedSlot {
  int column = 0, dim = 0;                  // Its columns of the embedding.
  int count = 0;                            // Distinct vectors; after them stands one of zeros.
  int64_t first = 0;                        // Of its vectors among those of all shared slots.
  int part = 0, parts = 0;                  // Among SharedSlots::parts.
  const uint32_t* vector_of_row = nullptr;  // (rows); `count`: no value.
  const uint32_t* first_row = nullptr;      // (count): a row that has it; `rows`: none has.
};

struct SharedSlots {
  std::vector<SharedSlot> slots;  // By column.
  std::vector<SharedPart> parts;  // Of all slots, by column.
  std::vector<ColumnRange> rest;  // The embedding's other columns, in order.
  int64_t vectors = 0;            // Of all slots, zeros included.
  Real* gradient = nullptr;       // Of the embedding, (rows + 1, stride).
  int64_t stride = 0;

  // By the batch and `sharing` alone. Memory is reused from batch to batch.
  void Find(const Step& step, std::span<const SlotSpec> specs, Sharing sharing);

  // Its parts' values of all vectors, (count, dim).
  void Pool(const SharedSlot& slot, const Device& device, Real* vectors) const;

 private:
  struct Lists {
    std::vector<uint32_t> vector_of_row, first_row, ids;
  };
  bool FindRequests(const Batch& batch, Sharing sharing, SharedSlot* found);
  bool FindIds(const Batch& batch, Sharing sharing, Lists* lists, SharedSlot* found);
  void Keep(SharedSlot found);
  void Leave(int column, int dim);

  std::vector<Lists> lists_;  // One a slot, which points into them.
  std::vector<uint32_t> first_row_of_request_;
  std::vector<uint32_t> local_;  // By id: its vector, within FindIds.
  std::vector<uint32_t> iota_;
};

}  // namespace starling
