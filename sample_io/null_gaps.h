// Values around nulls: a file holds those that are there, one after the other, a Column has
// a place for each row, and a slot again only those that are there. Several at a time on
// processors with AVX-512, without a branch on any.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling {

enum class GapCode { kPlain, kAvx512 };
GapCode BestGapCode();  // That this machine has; another is for tests.

// Sets out[i] to the next of `present`, for each i < n with levels[i] == level; to anything else.
void SpreadValues(const uint64_t* present, const uint8_t* levels, uint8_t level, size_t n,
                  uint64_t* out, GapCode code = BestGapCode());

// The values of entries that are not null: `out` and the entries' numbers, for which both have
// room for n + 1, and in offsets[i] how many stand before entry i. Returns how many there are.
size_t PickValues(const uint64_t* values, const uint8_t* valid, size_t n, uint32_t* offsets,
                  uint32_t* entry_of, uint64_t* out, GapCode code = BestGapCode());

}  // namespace starling
