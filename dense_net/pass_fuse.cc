#include <utility>

#include "dense_net/graph_passes.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

// The ops of a chain, from its head on; a lone head is no chain.
std::vector<int> ChainFrom(const Graph& graph, int head, const std::vector<int>& only_reader) {
  std::vector<int> chain = {head};
  if (graph.ops[head]->fusing() != Fusing::kHead) return chain;
  for (int next = only_reader[head]; next >= 0; next = only_reader[next]) {
    const Fusing fusing = graph.ops[next]->fusing();
    if (fusing != Fusing::kTail && fusing != Fusing::kLastTail) break;
    chain.push_back(next);
    if (fusing == Fusing::kLastTail) break;
  }
  return chain;
}

// By op: the op that reads its output, or -1 if none or several do.
std::vector<int> OnlyReaders(const Graph& graph) {
  std::vector<int> reader(graph.ops.size(), -1), readers(graph.ops.size(), 0);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    for (const Value& input : graph.ops[i]->inputs()) {
      reader[input.id] = ++readers[input.id] == 1 ? static_cast<int>(i) : -1;
    }
  }
  return reader;
}

}  // namespace

void FuseChains(Graph* graph) {
  const std::vector<int> only_reader = OnlyReaders(*graph);
  std::vector<int> new_id(graph->ops.size(), -1);
  std::vector<std::unique_ptr<Op>> ops;
  for (size_t i = 0; i < graph->ops.size(); ++i) {
    if (graph->ops[i] == nullptr) continue;  // In a chain already.
    std::vector<std::unique_ptr<Op>> parts;
    for (int part : ChainFrom(*graph, static_cast<int>(i), only_reader)) {
      new_id[part] = static_cast<int>(ops.size());
      parts.push_back(std::move(graph->ops[part]));
    }
    ops.push_back(parts.size() == 1 ? std::move(parts[0]) : Fused(std::move(parts)));
  }
  graph->ops = std::move(ops);
  Renumber(new_id, graph);
}

}  // namespace starling
