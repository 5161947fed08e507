// How well a pass mixes partitions. Logs are partitioned by time; a model that
// sees one day after the other forgets the first. Splits are leased in the order of
// the pass, so it is the order of splits that must mix their partitions.
#pragma once

#include <cstdint>
#include <vector>

#include "sample_io/source.h"

namespace starling {

struct Mixing {
  int partitions = 0;      // Directories that hold files.
  int window = 0;          // Splits in a row that are looked at together.
  double even_share = 0;   // Of the largest partition, in the whole pass.
  double worst_share = 0;  // Of one partition's rows in any window.

  // A window that is nearly all of one partition, though that is far from all of the data.
  bool poor() const { return partitions > 1 && worst_share > 0.5 + even_share / 2; }
};

// Of the splits in `order`, as a reader with one of `shards` shards leases them.
// The window is 8 splits a partition, though at most half of the reader's splits.
Mixing MixingOf(const std::vector<Split>& splits, const std::vector<uint32_t>& order,
                uint32_t shard = 0, uint32_t shards = 1);

}  // namespace starling
