#include "absl/strings/str_cat.h"
#include "dense_net/models.h"

namespace starling {
namespace {

MlpOptions DeepPart(const DcnV2Options& options) {
  MlpOptions mlp;
  *mlp.mutable_hidden() = options.hidden();
  mlp.set_activation(options.activation());
  mlp.set_dropout(options.dropout());
  mlp.set_batch_norm(options.batch_norm());
  return mlp;
}

Value CrossLayers(int layers, Value x0, GraphBuilder* graph) {
  Value x = x0;
  for (int i = 0; i < layers; ++i) {
    FullyConnectedOptions square;
    square.width = x0.width;
    const Value u = FullyConnected(graph, absl::StrCat("cross.", i), x, square);
    x = CrossCombine(graph, absl::StrCat("cross.", i, ".combine"), x0, u, x);
  }
  return x;
}

}  // namespace

// DCN-v2: cross layers with full matrices, beside or below an MLP.
Value BuildDcnV2(const GraphSpec& spec, GraphBuilder* graph) {
  const DcnV2Options& options = spec.model().dcnv2();
  const Value x = DeepInput(MakeInputs(spec, graph, true), graph);
  Value top = CrossLayers(options.cross_layers(), x, graph);
  if (options.structure() == DcnV2Options::STACKED) {
    top = Mlp(DeepPart(options), "mlp", top, graph);
  } else if (options.hidden_size() > 0) {
    top = Concat(graph, "towers", {top, Mlp(DeepPart(options), "mlp", x, graph)});
  }
  return FullyConnected(graph, "logit", top, {});
}

}  // namespace starling
