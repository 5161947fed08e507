// The values of one slot: where each entry's begin and end, and their ids.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"
#include "sample_io/batch.h"
#include "sample_io/columns.h"
#include "sample_io/unique_ids.h"

namespace starling {

// REQUIRES: the column holds integers or strings.
inline uint64_t IdOf(const Column& column, int64_t i, uint64_t seed) {
  return column.type == ColumnType::kInt64 ? HashInt64(column.ints[i], seed)
                                           : HashBytes(column.strings[i], seed);
}

// Sets slot->offsets: entry i of the slot is row entries[i] of the column.
// Returns the number of values. The offsets of more than 2^32 are not used.
size_t FillOffsets(const Column& column, std::span<const int64_t> entries, Slot* slot);

// Keys of the slot's values, in order: integers as they are, and the ids of
// strings. They stand in `room`, which may be larger, or in the column itself.
// REQUIRES: FillOffsets was called.
UniqueIds::Keys KeysOf(const Column& column, std::span<const int64_t> entries, uint64_t seed,
                       const Slot& slot, std::vector<uint64_t>* room);

}  // namespace starling
