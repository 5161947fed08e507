#include "ps/shard_map.h"

namespace starling {

ShardMap::ShardMap(int servers) : servers_(servers), owner_(kBuckets) {
  for (uint32_t s = 0; s < static_cast<uint32_t>(servers); ++s) {
    for (uint32_t b = s * kBuckets / servers; b < (s + 1) * kBuckets / servers; ++b) {
      owner_[b] = static_cast<uint16_t>(s);
    }
  }
}

}  // namespace starling
