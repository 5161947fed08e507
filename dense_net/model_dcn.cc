#include "absl/strings/str_cat.h"
#include "dense_net/models.h"

namespace starling {
namespace {

constexpr int kCrossLayersMax = 64, kCrossExpertsMax = 64;

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

// Sum_e g_e U_e tanh(C_e tanh(V_e x)) + b (Wang et al. 2021) is one product of all
// U_e with what this gives: the experts' inner values side by side, each times its gate.
Value GatedExperts(const CrossOptions& options, const std::string& name, Value x,
                   GraphBuilder* graph) {
  FullyConnectedOptions down, gate;
  down.width = options.experts * options.rank;
  gate.width = options.experts;
  down.bias = gate.bias = false;
  Value h = FullyConnected(graph, name + ".v", x, down);
  h = Activate(graph, name + ".v.tanh", h, MlpOptions::TANH);
  h = GroupedLinear(graph, name + ".c", h, options.experts, options.rank, false);
  h = Activate(graph, name + ".c.tanh", h, MlpOptions::TANH);
  const Value logits = FullyConnected(graph, name + ".gate", x, gate);
  return ScaleRows(graph, name + ".gated", Softmax(graph, name + ".gate.softmax", logits), h);
}

CrossOptions CrossPart(const DcnV2Options& options) {
  return {options.cross_layers(), options.rank(), options.experts()};
}

}  // namespace

void CheckCross(const CrossOptions& options, const std::string& layers_key, OptionCheck* check) {
  check->Range(layers_key, options.layers, 1, kCrossLayersMax);
  check->Range("rank", options.rank, 0, OptionCheck::kWidthMax);
  check->Range("experts", options.experts, 1, kCrossExpertsMax);
}

Value CrossLayers(const CrossOptions& options, const std::string& name, Value x0,
                  GraphBuilder* graph) {
  Value x = x0;
  for (int i = 0; i < options.layers; ++i) {
    const std::string layer = absl::StrCat(name, ".", i);
    FullyConnectedOptions square;
    square.width = x0.width;
    const Value from = options.rank > 0 ? GatedExperts(options, layer, x, graph) : x;
    const Value u = FullyConnected(graph, layer, from, square);
    x = CrossCombine(graph, layer + ".combine", x0, u, x);
  }
  return x;
}

void CheckDcn(const DcnOptions& options, OptionCheck* check) {
  check->Deep(options);
  check->Range("cross_layers", options.cross_layers(), 1, kCrossLayersMax);
}

void CheckDcnV2(const DcnV2Options& options, OptionCheck* check) {
  check->Deep(options);
  CheckCross(CrossPart(options), "cross_layers", check);
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

// DCN-v2: cross layers with full matrices or mixtures of low rank, beside or below an MLP.
Value BuildDcnV2(const GraphSpec& spec, GraphBuilder* graph) {
  const DcnV2Options& options = spec.model().dcnv2();
  const Value x = DeepInput(MakeInputs(spec, graph, true), graph);
  Value top = CrossLayers(CrossPart(options), "cross", x, graph);
  if (options.structure() == DcnV2Options::STACKED) {
    top = Mlp(DeepPart(options), "mlp", top, graph);
  } else if (options.hidden_size() > 0) {
    top = Concat(graph, "towers", {top, Mlp(DeepPart(options), "mlp", x, graph)});
  }
  return FullyConnected(graph, "logit", top, {});
}

}  // namespace starling
