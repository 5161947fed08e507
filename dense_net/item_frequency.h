// How often an item comes, learnt from the stream (Yi et al. 2019): the mean number of
// steps between two of its appearances, whose inverse is the chance that a batch has it.
#pragma once

#include <cstdint>

#include "dense_net/graph.h"

namespace starling {

// The estimates are statistics among the parameters, so that a checkpoint has them. Ids share
// the bucket they fall into. Steps are counted in floats: beyond 2^24 of them gaps stay.
struct ItemFrequency {
  int64_t steps = -1;  // Offsets: of the number of steps; by bucket, of the last step that had
  int64_t last = -1;   // an item of it, 0 being none, and of the mean gap.
  int64_t gap = -1;
  int64_t buckets = 0;
  double rate = 0;  // Of the newest gap in the mean.
};

ItemFrequency AddItemFrequency(GraphBuilder* graph, const std::string& name, double rate,
                               int buckets);

// Begins a step's additions to the statistics.
void BeginItems(const ItemFrequency& frequency, Real* additions);
// Item `id` is in this step's batch. Adds that, once a step and bucket, and returns the log of the
// chance of it: that of a first appearance is one in the steps so far.
double SeeItem(const ItemFrequency& frequency, uint64_t id, const Real* params, Real* additions);

}  // namespace starling
