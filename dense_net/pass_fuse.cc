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

// By op: the combining op that a lone head is to be joined with, or -1; and by that op, the head.
struct Combined {
  std::vector<int> by_head, by_reader;
};
Combined CombinedHeads(const Graph& graph, const std::vector<int>& only_reader) {
  Combined combined;
  combined.by_head.assign(graph.ops.size(), -1);
  combined.by_reader.assign(graph.ops.size(), -1);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const int reader = only_reader[i], head = static_cast<int>(i);
    if (graph.ops[i]->fusing() != Fusing::kHead || reader < 0) continue;
    const Op& op = *graph.ops[reader];
    if (op.fusing() != Fusing::kCombine || op.inputs()[1].id != head) continue;
    combined.by_head[i] = reader;
    combined.by_reader[reader] = head;
  }
  return combined;
}

}  // namespace

void FuseChains(Graph* graph) {
  const std::vector<int> only_reader = OnlyReaders(*graph);
  const Combined combined = CombinedHeads(*graph, only_reader);
  std::vector<int> new_id(graph->ops.size(), -1);
  std::vector<std::unique_ptr<Op>> ops;
  for (size_t i = 0; i < graph->ops.size(); ++i) {
    if (graph->ops[i] == nullptr) continue;  // In a chain already.
    if (combined.by_head[i] >= 0) continue;  // Where its reader stands.
    if (const int head = combined.by_reader[i]; head >= 0) {
      new_id[head] = new_id[i] = static_cast<int>(ops.size());
      ops.push_back(FusedCross(std::move(graph->ops[head]), std::move(graph->ops[i])));
      continue;
    }
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
