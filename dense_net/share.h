// One replica's share of a step that several devices take together (replicas.h):
// some of the batch's tiles, one after the other. With one device there is one share, the batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dense_net/batch_arrays.h"

namespace starling {

class Collective;
class Device;

// What means and drawn numbers need to know of the whole batch.
struct JointBatch {
  int64_t rows = 0;
  int tile = 0;  // Rows of a full one.
  int tiles = 0;
  // By sequence of the graph: positions before each tile, (tiles + 1); and positions
  // that follow one of the same row.
  std::vector<std::vector<int64_t>> before;
  std::vector<int64_t> pairs;

  // Rows, or positions of a sequence, before a tile.
  int64_t Before(int sequence, int t) const {
    if (sequence >= 0) return before[sequence][t];
    const int64_t row = int64_t{t} * tile;
    return row < rows ? row : rows;
  }
};

struct Share {
  const Device* device = nullptr;
  const BatchArrays* arrays = nullptr;  // Of the share's batch, on the device.
  const JointBatch* joint = nullptr;
  std::span<const int> first_tiles;  // By replica, and the end.
  int replica = 0;
  Collective* collective = nullptr;
};

}  // namespace starling
