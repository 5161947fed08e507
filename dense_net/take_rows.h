// A batch of some rows of another: what one replica trains on.
#pragma once

#include <cstdint>
#include <vector>

#include "sample_io/batch.h"

namespace starling {

inline constexpr uint32_t kNoId = 0xffffffff;

// How the ids of a part belong to those of the whole, by table.
struct PartIds {
  std::vector<std::vector<uint32_t>> whole_of;  // (ids of the part), ascending.
  std::vector<std::vector<uint32_t>> part_of;   // (ids of the whole); kNoId: not in the part.
};

// Rows [first, first + rows) of `whole` into `part`, with the ids that they hold and no
// others, in the same order, and their occurrences in the same order. A request of which some
// rows are taken is in the part. Of an id, count and event time stay with the whole.
// The part's memory is reused.
void TakeRows(const Batch& whole, uint32_t first, uint32_t rows, Batch* part, PartIds* ids);

}  // namespace starling
