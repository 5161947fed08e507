#include <vector>

#include "dense_net/models.h"

namespace starling {

void CheckDlrm(const DlrmOptions& options, OptionCheck* check) {
  check->Widths("bottom", options.bottom());
  CheckHidden(options, check);
}

// DLRM: an MLP brings the raws to one vector of the embeddings' dim; the dot
// products of all pairs of vectors and that vector go through an MLP.
Value BuildDlrm(const GraphSpec& spec, GraphBuilder* graph) {
  const DlrmOptions& options = spec.model().dlrm();
  const Inputs inputs = MakeInputs(spec, graph, true);
  const int dim = spec.slots(0).embedding_dim();
  std::vector<Value> top;
  Value vectors = inputs.embedding;
  if (inputs.raw.id >= 0) {
    MlpOptions bottom = DeepPart(options);
    *bottom.mutable_hidden() = options.bottom();
    bottom.add_hidden(dim);
    top.push_back(Mlp(bottom, "bottom", inputs.raw, graph));
    vectors = Concat(graph, "vectors", {top[0], vectors});
  }
  if (vectors.width > dim) top.push_back(PairDots(graph, "pairs", vectors, dim));
  if (top.empty()) top.push_back(vectors);
  return MlpLogit(DeepPart(options), Concat(graph, "products", top), graph);
}

}  // namespace starling
