#include <vector>

#include "absl/strings/str_cat.h"
#include "dense_net/models.h"

namespace starling {
namespace {

// A compressed interaction network: the maps of every layer, summed over the
// coordinates, then one weight a map.
Value CinLogit(const XDeepFmOptions& options, Value embedding, int dim, GraphBuilder* graph) {
  const Value x0 = Transpose(graph, "cin.input", embedding, dim);
  Value x = x0, logit;
  for (int i = 0; i < options.cin_size(); ++i) {
    const std::string name = absl::StrCat("cin.", i);
    x = CinLayer(graph, name, x0, x, {dim, options.cin(i)});
    const Value sums = SumPositions(graph, name + ".sum", x, dim);
    FullyConnectedOptions one;
    one.bias = i == 0;
    const Value part = FullyConnected(graph, name + ".logit", sums, one);
    logit = i == 0 ? part : Add(graph, name + ".add", {logit, part});
  }
  return logit;
}

}  // namespace

void CheckXDeepFm(const XDeepFmOptions& options, OptionCheck* check) {
  check->Deep(options);
  check->Widths("cin", options.cin());
  check->Require(options.cin_size() > 0, "", "needs the maps of each layer, as in {cin: [64]}");
}

// xDeepFM: LR, a compressed interaction network and an MLP, added.
Value BuildXDeepFm(const GraphSpec& spec, GraphBuilder* graph) {
  const XDeepFmOptions& options = spec.model().xdeepfm();
  const Inputs inputs = MakeInputs(spec, graph, true);
  const int dim = spec.slots(0).embedding_dim();
  std::vector<Value> parts = {LinearLogit(spec, inputs, graph),
                              CinLogit(options, inputs.embedding, dim, graph)};
  if (options.hidden_size() > 0) {
    parts.push_back(MlpLogit(DeepPart(options), DeepInput(inputs, graph), graph));
  }
  return Add(graph, "logit", parts);
}

}  // namespace starling
