#include "dense_net/models.h"

namespace starling {

namespace {

Value Products(PnnOptions::Product kind, Value x, int dim, GraphBuilder* graph) {
  const int slots = x.width / dim;
  if (kind == PnnOptions::OUTER) {
    const Value sum = SumPositions(graph, "sum", x, slots);
    return Outer(graph, "outer", sum, sum);
  }
  if (kind == PnnOptions::BILINEAR) {
    const Value turned = PositionLinear(graph, "bilinear", x, slots, dim);
    return PairProducts(graph, "pairs", turned, x, dim);
  }
  return PairDots(graph, "pairs", x, dim);
}

}  // namespace

// Product-based network: an MLP on embeddings, raws and products of embeddings.
Value BuildPnn(const GraphSpec& spec, GraphBuilder* graph) {
  const PnnOptions& options = spec.model().pnn();
  const Inputs inputs = MakeInputs(spec, graph, true);
  const Value x = DeepInput(inputs, graph);
  const int dim = spec.slots(0).embedding_dim();
  const bool pairs = spec.slots_size() > 1 || options.product() == PnnOptions::OUTER;
  if (!pairs) return MlpLogit(DeepPart(options), x, graph);
  const Value products = Products(options.product(), inputs.embedding, dim, graph);
  return MlpLogit(DeepPart(options), Concat(graph, "products", {x, products}), graph);
}

}  // namespace starling
