#include "dense_net/models.h"

namespace starling {

// Neural FM: LR plus an MLP on the summed products of all pairs of embeddings
// (and the raws, which have no embedding).
Value BuildNfm(const GraphSpec& spec, GraphBuilder* graph) {
  const Inputs inputs = MakeInputs(spec, graph, true);
  const Value first = LinearLogit(spec, inputs, graph);
  Inputs pooled = inputs;
  pooled.embedding =
      BiInteraction(graph, "bi_interaction", inputs.embedding, spec.slots(0).embedding_dim());
  const Value deep = MlpLogit(spec.model().nfm(), DeepInput(pooled, graph), graph);
  return Add(graph, "logit", {first, deep});
}

}  // namespace starling
