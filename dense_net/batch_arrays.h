// The arrays of a batch that kernels read: pointers into the batch itself, or into
// a copy in a device's memory. What the host alone reads (sizes, groups) stays in the Batch.
#pragma once

#include <cstdint>
#include <vector>

#include "sample_io/batch.h"

namespace starling {

struct SlotArrays {
  const uint32_t *offsets = nullptr, *index = nullptr;
  const float* weights = nullptr;  // Null: all 1.
};
struct TableArrays {
  const uint32_t* occurrence_offsets = nullptr;
  const uint32_t* occurrences = nullptr;      // Their codes,
  const float* occurrence_weights = nullptr;  // and weights. Null: all 1.
  std::vector<SlotArrays> slots;
};
struct BatchArrays {
  const uint32_t* request_of_row = nullptr;  // Null: row i is request i.
  const float *labels = nullptr, *dense = nullptr;
  const float* weights = nullptr;  // Null: all 1.
  std::vector<TableArrays> tables;
};

// Calls fn(const std::vector<T>& array, const T** pointer) for each of them.
template <typename Fn>
void ForArrays(const Batch& batch, BatchArrays* arrays, const Fn& fn) {
  fn(batch.request_of_row, &arrays->request_of_row);
  fn(batch.labels, &arrays->labels);
  fn(batch.weights, &arrays->weights);
  fn(batch.dense, &arrays->dense);
  arrays->tables.resize(batch.tables.size());
  for (size_t t = 0; t < batch.tables.size(); ++t) {
    const TableIds& from = batch.tables[t];
    TableArrays& to = arrays->tables[t];
    fn(from.occurrence_offsets, &to.occurrence_offsets);
    fn(from.occurrences.codes, &to.occurrences);
    fn(from.occurrences.weights, &to.occurrence_weights);
    to.slots.resize(from.slots.size());
    for (size_t s = 0; s < from.slots.size(); ++s) {
      fn(from.slots[s].offsets, &to.slots[s].offsets);
      fn(from.slots[s].index, &to.slots[s].index);
      fn(from.slots[s].weights, &to.slots[s].weights);
    }
  }
}

// Those of the batch itself.
inline void ViewArrays(const Batch& batch, BatchArrays* arrays) {
  ForArrays(batch, arrays,
            [](const auto& from, auto* to) { *to = from.empty() ? nullptr : from.data(); });
}

}  // namespace starling
