// ShardMap: id → bucket → server. Moving a bucket is how a cluster grows.
#pragma once

#include <cstdint>
#include <vector>

#include "base/hash.h"

namespace starling {

class ShardMap {
 public:
  // Buckets in equal contiguous runs: server s owns [s, s + 1) * kBuckets / servers.
  explicit ShardMap(int servers);

  int servers() const { return servers_; }
  int ServerOf(uint64_t id) const { return owner_[BucketOf(id)]; }

 private:
  int servers_;
  std::vector<uint16_t> owner_;  // By bucket.
};

}  // namespace starling
