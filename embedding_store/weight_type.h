// How a table's option `dtype` reaches memory: weights narrow, one run of
// base/narrow_float.h a segment, optimiser state as floats.
#pragma once

#include <cstdint>

#include "base/narrow_float.h"
#include "embedding_store/row_layout.h"
#include "embedding_store/table.pb.h"

namespace starling {

FloatType WeightType(const TableOptions& options);
// Bytes of a row's weights in memory.
int WeightBytes(FloatType type, const RowLayout& layout);
// What a row in memory costs, its header and its share of the index included;
// an estimate for people, not for allocators.
int64_t RowMemoryBytes(const TableOptions& options, const RowLayout& layout);

}  // namespace starling
