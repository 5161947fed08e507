// Ids and buckets: the two hash functions that data on disk depends on. Both
// are frozen by golden tests; changing either makes every checkpoint unreadable.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace starling {

// XXH64 of bytes, and of the 8 little-endian bytes of an integer.
uint64_t HashBytes(absl::string_view bytes, uint64_t seed);
uint64_t HashInt64(int64_t value, uint64_t seed);

// The seed of a vocabulary: XXH64(vocabulary, 42). A feature's id is then
// HashBytes(value, seed) for strings and HashInt64(value, seed) for integers
// of any width, which is Spark's xxhash64(lit(vocabulary), col) with integers
// cast to bigint.
inline uint64_t VocabularySeed(absl::string_view vocabulary) { return HashBytes(vocabulary, 42); }

// Ids are spread over a fixed number of buckets; a bucket is the unit of
// sharding, of order in row files and of moves between servers.
inline constexpr uint32_t kBuckets = 4096;
inline uint32_t BucketOf(uint64_t id) {
  return static_cast<uint32_t>((id * 0x9E3779B97F4A7C15ull) >> 52);
}

// The order of ids everywhere: by bucket, then by id.
inline bool IdBefore(uint64_t a, uint64_t b) {
  uint32_t x = BucketOf(a), y = BucketOf(b);
  return x != y ? x < y : a < b;
}

}  // namespace starling
