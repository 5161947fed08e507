// Where each value and gradient of a graph lies in an arena, decided once.
//
// A value lives from its op's forward to its last reader; two that never live
// at once may share a place. Offsets are in floats per row: the executor
// multiplies them by the rows of a tile, or by its positions, for which there is
// an arena of its own.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "dense_net/graph.h"

namespace starling {

struct MemoryPlan {
  int64_t width = 0;             // Floats per row of the whole arena,
  int64_t position_width = 0;    // and per position of the other.
  std::vector<int64_t> value;    // Offset of each op's output.
  std::vector<int64_t> grad;     // Of its gradient; -1: not wanted, or kept elsewhere.
  std::vector<bool> wants_grad;  // By op: whether its output's gradient is computed.
  // By op and input: the gradient already holds another op's part.
  std::vector<std::array<bool, kOpInputsMax>> in_add;
};

MemoryPlan PlanMemory(const Graph& graph, bool training);

}  // namespace starling
