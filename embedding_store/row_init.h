// The weights that a new row begins with: RandomNormal of a row of counters,
// four at a time. Its logarithm and cosine are series that end below the last
// bit of a double, so that the floats are those of the library's functions but
// for one in some ten thousand, which is its neighbour.
#pragma once

#include <cstdint>
#include <span>

namespace starling {

// floats[i] = deviation * RandomNormal(key, first + i).
void FillNormal(uint64_t key, uint64_t first, float deviation, std::span<float> floats);

}  // namespace starling
