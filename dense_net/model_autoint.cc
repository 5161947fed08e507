#include <vector>

#include "absl/strings/str_cat.h"
#include "dense_net/models.h"

namespace starling {
namespace {

// One layer: every field becomes a mix of all fields, by heads that attend.
Value AttentionLayer(const AutoIntOptions& options, std::string name, Value x, int fields,
                     GraphBuilder* graph) {
  const int dim = options.attention_dim(), heads = options.heads();
  const Value q = PositionLinear(graph, name + ".q", x, fields, dim);
  const Value k = PositionLinear(graph, name + ".k", x, fields, dim);
  const Value v = PositionLinear(graph, name + ".v", x, fields, dim);
  Value weights = AttentionWeights(graph, name + ".weights", q, k, fields, heads);
  if (options.dropout() > 0) {
    weights = Dropout(graph, name + ".dropout", weights, options.dropout());
  }
  Value y = AttentionMix(graph, name + ".mix", weights, v, fields, heads);
  if (options.residual()) {
    const bool same = x.width == y.width;
    const Value kept = same ? x : PositionLinear(graph, name + ".residual", x, fields, dim);
    y = Add(graph, name + ".add", {y, kept});
  }
  if (options.layer_norm()) y = LayerNorm(graph, name + ".norm", y, fields);
  return Activate(graph, name + ".activation", y, MlpOptions::RELU);
}

}  // namespace

void CheckAutoInt(const AutoIntOptions& options, OptionCheck* check) {
  check->Deep(options);
  check->Range("attention_layers", options.attention_layers(), 1, 64);
  check->Range("attention_dim", options.attention_dim(), 1, OptionCheck::kWidthMax);
  check->Range("heads", options.heads(), 1, 1024);
  check->Require(
      options.heads() < 1 || options.attention_dim() % options.heads() == 0, "heads",
      absl::StrCat("heads must divide attention_dim, which is ", options.attention_dim()));
}

// AutoInt+: self-attention between fields, beside an MLP and, if wanted, LR.
Value BuildAutoInt(const GraphSpec& spec, GraphBuilder* graph) {
  const AutoIntOptions& options = spec.model().autoint();
  const Inputs inputs = MakeInputs(spec, graph, true);
  Value x = inputs.embedding;
  for (int i = 0; i < options.attention_layers(); ++i) {
    x = AttentionLayer(options, absl::StrCat("attention.", i), x, spec.slots_size(), graph);
  }
  std::vector<Value> parts = {FullyConnected(graph, "attention.logit", x, {})};
  if (options.wide()) parts.push_back(LinearLogit(spec, inputs, graph));
  if (options.hidden_size() > 0) {
    parts.push_back(MlpLogit(DeepPart(options), DeepInput(inputs, graph), graph));
  }
  return Add(graph, "logit", parts);
}

}  // namespace starling
