#include "dense_net/models.h"

namespace starling {

// An MLP on embeddings and raws.
Value BuildDnn(const GraphSpec& spec, GraphBuilder* graph) {
  const Inputs inputs = MakeInputs(spec, graph, true);
  return MlpLogit(spec.model().dnn(), DeepInput(inputs, graph), graph);
}

// LR beside an MLP.
Value BuildWideDeep(const GraphSpec& spec, GraphBuilder* graph) {
  const Inputs inputs = MakeInputs(spec, graph, true);
  const Value wide = LinearLogit(spec, inputs, graph);
  const Value deep = MlpLogit(spec.model().wide_deep(), DeepInput(inputs, graph), graph);
  return Add(graph, "logit", {wide, deep});
}

// FM beside an MLP that shares its embeddings.
Value BuildDeepFm(const GraphSpec& spec, GraphBuilder* graph) {
  const Inputs inputs = MakeInputs(spec, graph, true);
  const Value first = LinearLogit(spec, inputs, graph);
  const Value second = FmSecondOrder(graph, inputs.embedding, spec.slots(0).embedding_dim());
  const Value deep = MlpLogit(spec.model().deepfm(), DeepInput(inputs, graph), graph);
  return Add(graph, "logit", {first, second, deep});
}

}  // namespace starling
