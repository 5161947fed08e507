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

// True if the entries are consecutive, as those of a batch without a bad row are.
inline bool IsRun(std::span<const int64_t> entries) {
  int64_t gaps = 0;
  for (size_t e = 1; e < entries.size(); ++e) gaps |= (entries[e] - entries[e - 1]) ^ 1;
  return gaps == 0;
}

// Values of the slot whose entry i is row entries[i] of the column; nulls may count.
size_t ValuesMax(const Column& column, std::span<const int64_t> entries);

// Sets slot->offsets, and the entry of every value in entry_of, which has room for
// ValuesMax and one more. Returns the values' keys, in order: integers as they are, and the
// ids of strings. They stand in `room`, which may be larger, or in the column itself. `run` is
// IsRun(entries), which all columns of the same entries share.
UniqueIds::Keys FillValues(const Column& column, std::span<const int64_t> entries, bool run,
                           uint64_t seed, std::vector<uint64_t>* room, uint32_t* entry_of,
                           Slot* slot);

}  // namespace starling
