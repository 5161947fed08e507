// What the rows of a training batch have in common: slots in which few distinct
// vectors serve all rows (a field of few ids, a request's features). A product of
// such a slot's columns with weights is computed once a vector and added up by
// row, its gradient summed by vector first (shared_product.h). Where every op that reads
// the embedding can do so, the columns of requests stand in no row at all. Not thread
// safe: found once a step, then only read.
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
  bool of_requests = false;                 // Vector i is request i's.
};

struct SharedSlots {
  std::vector<SharedSlot> slots;  // By column.
  std::vector<SharedPart> parts;  // Of all slots, by column.
  std::vector<ColumnRange> rest;  // The embedding's other columns, in order.
  int64_t vectors = 0;            // Of all slots, zeros included.
  // The columns of slots of requests are not set in the rows of the embedding, and of its gradient
  // in the first row of each request alone.
  bool requests_apart = false;
  std::vector<ColumnRange> in_rows;  // The embedding's columns that are, in order.
  Real* gradient = nullptr;          // Of the embedding, (rows + 1, stride).
  int64_t stride = 0;

  // What the readers of the embedding do with it.
  struct Readers {
    bool share_ids = true;  // Else only requests are looked for.
    bool take_requests_apart = false;
  };
  // By the batch, `sharing` and the readers alone. Memory is reused from batch to batch.
  void Find(const Step& step, std::span<const SlotSpec> specs, Sharing sharing, Readers readers);
  // All columns are to be set in rows after all.
  void JoinRequests() { requests_apart = false; }

  // Calls fn(begin, width) for the columns that are set in the rows of a value that begins with
  // the embedding's `embedding` columns.
  template <typename Fn>
  static void ForColumns(const SharedSlots* shared, int embedding, int width, const Fn& fn) {
    if (shared == nullptr || !shared->requests_apart || embedding == 0) return fn(0, width);
    for (const ColumnRange& range : shared->in_rows) fn(range.begin, range.width);
    if (width > embedding) fn(embedding, width - embedding);
  }
  // Calls fn(slot) for the slots whose columns are apart.
  template <typename Fn>
  void ForApart(const Fn& fn) const {
    if (!requests_apart) return;
    for (const SharedSlot& slot : slots) {
      if (slot.of_requests) fn(slot);
    }
  }
  // Whether the columns that begin there are set in rows.
  bool InRows(int column) const {
    if (!requests_apart) return true;
    bool apart = false;
    ForApart([&](const SharedSlot& s) {
      apart = apart || (column >= s.column && column < s.column + s.dim);
    });
    return !apart;
  }

  // Its parts' values of all vectors, (count, dim).
  void Pool(const SharedSlot& slot, const Device& device, Real* vectors) const;

  // Work on requests that stand apart is done in parts, of so many.
  static constexpr int kRequestsAPart = 64;
  int request_parts() const {
    return requests_apart ? (requests + kRequestsAPart - 1) / kRequestsAPart : 0;
  }
  int requests = 0;

 private:
  struct Lists {
    std::vector<uint32_t> vector_of_row, first_row, ids;
  };
  void FindCandidates(const Batch& batch, std::span<const SlotSpec> specs, Sharing sharing,
                      bool share_ids);
  int CountIds(const Slot& slot, int64_t rows, int dim, Sharing sharing);
  bool Pay(int64_t rows, Sharing sharing) const;
  void TakeRequests(const Batch& batch, SharedSlot* found);
  bool TakeIds(const Batch& batch, SharedSlot* found);
  void Keep(SharedSlot found);
  static void Leave(int column, int dim, std::vector<ColumnRange>* ranges);

  std::vector<SharedSlot> candidates_;  // By column.
  std::vector<Lists> lists_;            // One a slot, which points into them.
  std::vector<uint32_t> first_row_of_request_;
  std::vector<uint32_t> local_;  // By id: its vector, within TakeIds.
  std::vector<uint32_t> iota_;
};

}  // namespace starling
