// Ids and buckets: the two hash functions that data on disk depends on. Both
// are frozen by golden tests; changing either makes every checkpoint unreadable.
#pragma once

#include <bit>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace starling {

// XXH64 of bytes, and of the 8 little-endian bytes of an integer.
uint64_t HashBytes(absl::string_view bytes, uint64_t seed);
// The latter is written out: 26 of these a row are a good part of reading it.
inline uint64_t HashInt64(int64_t value, uint64_t seed) {
  constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87, kPrime2 = 0xC2B2AE3D27D4EB4F,
                     kPrime3 = 0x165667B19E3779F9, kPrime4 = 0x85EBCA77C2B2AE63,
                     kPrime5 = 0x27D4EB2F165667C5;
  uint64_t hash = seed + kPrime5 + sizeof(value);
  hash ^= std::rotl(static_cast<uint64_t>(value) * kPrime2, 31) * kPrime1;
  hash = std::rotl(hash, 27) * kPrime1 + kPrime4;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

// The seed of a vocabulary: XXH64(vocabulary, 42). A feature's id is then
// HashBytes(value, seed) for strings and HashInt64(value, seed) for integers
// of any width, which is Spark's xxhash64(lit(vocabulary), col) with integers
// cast to bigint.
inline uint64_t VocabularySeed(absl::string_view vocabulary) { return HashBytes(vocabulary, 42); }

// Ids are spread over a fixed number of buckets; a bucket is the unit of
// sharding, of order in row files and of moves between servers.
inline constexpr uint32_t kBuckets = 4096;
// A hash of the id that begins with its bucket: different for different ids.
inline uint64_t BucketHash(uint64_t id) { return id * 0x9E3779B97F4A7C15ull; }
inline uint32_t BucketOf(uint64_t id) { return static_cast<uint32_t>(BucketHash(id) >> 52); }

// The order of ids everywhere: by bucket, then by id.
inline bool IdBefore(uint64_t a, uint64_t b) {
  uint32_t x = BucketOf(a), y = BucketOf(b);
  return x != y ? x < y : a < b;
}

}  // namespace starling
