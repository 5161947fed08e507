// From the gradients of pooled inputs to those of table rows.
#pragma once

#include <span>

#include "dense_net/graph.h"
#include "dense_net/workspace.h"

namespace starling {

// Fills row_grads[t] (U, table_width[t]) from the workspace's kept gradients of the step.
// Each id's occurrences are summed in their order, by one thread.
void SumRowGradients(const Step& step, const GraphSpec& spec, const Graph& graph, ThreadPool* pool,
                     StepWorkspace* space, std::span<const std::span<Real>> row_grads);

}  // namespace starling
