#include "absl/strings/str_cat.h"
#include "dense_net/models.h"

namespace starling {
namespace {

Value VectorCrossLayers(int layers, Value x0, GraphBuilder* graph) {
  Value x = x0;
  for (int i = 0; i < layers; ++i) {
    FullyConnectedOptions one;
    one.bias = false;
    const Value u = FullyConnected(graph, absl::StrCat("cross.", i), x, one);
    x = CrossVector(graph, absl::StrCat("cross.", i, ".combine"), x0, u, x);
  }
  return x;
}

}  // namespace

Value CrossLayers(int layers, const std::string& name, Value x0, GraphBuilder* graph) {
  Value x = x0;
  for (int i = 0; i < layers; ++i) {
    const std::string layer = absl::StrCat(name, ".", i);
    FullyConnectedOptions square;
    square.width = x0.width;
    const Value u = FullyConnected(graph, layer, x, square);
    x = CrossCombine(graph, layer + ".combine", x0, u, x);
  }
  return x;
}

// DCN: cross layers with one vector each, beside an MLP.
Value BuildDcn(const GraphSpec& spec, GraphBuilder* graph) {
  const DcnOptions& options = spec.model().dcn();
  const Value x = DeepInput(MakeInputs(spec, graph, true), graph);
  Value top = VectorCrossLayers(options.cross_layers(), x, graph);
  if (options.hidden_size() > 0) {
    top = Concat(graph, "towers", {top, Mlp(DeepPart(options), "mlp", x, graph)});
  }
  return FullyConnected(graph, "logit", top, {});
}

// DCN-v2: cross layers with full matrices, beside or below an MLP.
Value BuildDcnV2(const GraphSpec& spec, GraphBuilder* graph) {
  const DcnV2Options& options = spec.model().dcnv2();
  const Value x = DeepInput(MakeInputs(spec, graph, true), graph);
  Value top = CrossLayers(options.cross_layers(), "cross", x, graph);
  if (options.structure() == DcnV2Options::STACKED) {
    top = Mlp(DeepPart(options), "mlp", top, graph);
  } else if (options.hidden_size() > 0) {
    top = Concat(graph, "towers", {top, Mlp(DeepPart(options), "mlp", x, graph)});
  }
  return FullyConnected(graph, "logit", top, {});
}

}  // namespace starling
