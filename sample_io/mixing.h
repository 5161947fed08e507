// How well a pass mixes partitions. Logs are partitioned by time; a model that
// sees one day after the other forgets the first. Splits are leased in the order of
// the pass, so it is the order of splits that must mix their partitions.
#pragma once

#include <cstdint>
#include <vector>

#include "sample_io/source.h"

namespace starling {

struct Mixing {
  int64_t splits = 0;
  int partitions = 0;  // Directories that hold files, in the order of their names.
  // Between a split's place in the order and its partition's: 0 if mixed, 1 if sorted.
  double order_correlation = 0;
  // Splits that follow one of the same partition, and as many as chance gives.
  double same_share = 0, chance_share = 0;

  // Far beyond chance.
  bool poor() const;
};

// Of the splits in `order`, as a reader with one of `shards` shards leases them.
Mixing MixingOf(const std::vector<Split>& splits, const std::vector<uint32_t>& order,
                uint32_t shard = 0, uint32_t shards = 1);

}  // namespace starling
