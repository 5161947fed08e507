// Passes over a finished graph, each a page: they change how much work a step
// is, and no bit of its results.
#pragma once

#include "dense_net/graph.h"

namespace starling {

// Of ops with equal keys and inputs the first stays and the others' readers
// read it. Gradients then add up there.
void MergeCommonOps(Graph* graph);

// Removes ops that no loss depends on. Their parameters stay, with gradients of
// zero: a checkpoint's layout does not depend on passes.
void RemoveDeadOps(Graph* graph);

// Joins each op of Fusing::kHead with the ops that follow it one by one, each
// the only reader of the one before: linear + activation + dropout become one
// op with one place in memory, which takes its rows in strips that stay in
// cache between the parts. It keeps the head's name.
void FuseChains(Graph* graph);

}  // namespace starling
