#include <utility>

#include "dense_net/graph_passes.h"

namespace starling {

void RemoveDeadOps(Graph* graph) {
  const int n = static_cast<int>(graph->ops.size());
  std::vector<bool> read(n, false);
  for (int i = n - 1; i >= 0; --i) {
    read[i] = read[i] || graph->ops[i]->is_loss();
    for (const Value& input : graph->ops[i]->inputs()) {
      if (read[i]) read[input.id] = true;
    }
  }
  std::vector<int> new_id(n, -1);
  std::vector<std::unique_ptr<Op>> ops;
  for (int i = 0; i < n; ++i) {
    if (!read[i]) continue;
    new_id[i] = static_cast<int>(ops.size());
    ops.push_back(std::move(graph->ops[i]));
  }
  graph->ops = std::move(ops);
  Renumber(new_id, graph);
}

}  // namespace starling
