#include "dense_net/models.h"

namespace starling {

// Factorisation machine: LR plus the dot products of all pairs of embeddings.
Value BuildFm(const GraphSpec& spec, GraphBuilder* graph) {
  const Inputs inputs = MakeInputs(spec, graph, true);
  const Value first = LinearLogit(spec, inputs, graph);
  const Value second = FmSecondOrder(graph, inputs.embedding, spec.slots(0).embedding_dim());
  return Add(graph, "logit", {first, second});
}

}  // namespace starling
