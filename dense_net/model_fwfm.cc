#include "dense_net/models.h"

namespace starling {

// Field-weighted factorisation machine: LR plus the dot products of all pairs
// of embeddings, each pair of fields with a weight of its own.
Value BuildFwFm(const GraphSpec& spec, GraphBuilder* graph) {
  const Inputs inputs = MakeInputs(spec, graph, true);
  const Value first = LinearLogit(spec, inputs, graph);
  if (spec.slots_size() < 2) return first;
  const Value pairs = PairDots(graph, "pairs", inputs.embedding, spec.slots(0).embedding_dim());
  FullyConnectedOptions weights;
  weights.bias = false;
  return Add(graph, "logit", {first, FullyConnected(graph, "pairs.weights", pairs, weights)});
}

}  // namespace starling
