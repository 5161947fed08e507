// Parts that models share.
#include <utility>

#include "absl/strings/str_cat.h"
#include "dense_net/models.h"

namespace starling {

Inputs MakeInputs(const GraphSpec& spec, GraphBuilder* graph, bool embedding) {
  Inputs inputs;
  if (embedding && !spec.slots().empty()) inputs.embedding = EmbeddingInput(graph, spec);
  if (!spec.raws().empty()) inputs.raw = RawInput(graph, spec.raws_size());
  return inputs;
}

Value DeepInput(const Inputs& inputs, GraphBuilder* graph) {
  std::vector<Value> parts;
  if (inputs.embedding.id >= 0) parts.push_back(inputs.embedding);
  if (inputs.raw.id >= 0) parts.push_back(inputs.raw);
  return Concat(graph, "input", std::move(parts));
}

Value LinearLogit(const GraphSpec& spec, const Inputs& inputs, GraphBuilder* graph) {
  const Value ids = LinearInput(graph, spec);
  if (inputs.raw.id < 0) return ids;
  FullyConnectedOptions one;
  one.bias = false;
  one.init = Init::kZero;
  return Add(graph, "first_order", {ids, FullyConnected(graph, "linear.raw", inputs.raw, one)});
}

Value Mlp(const MlpOptions& options, std::string name, Value x, GraphBuilder* graph) {
  for (int i = 0; i < options.hidden_size(); ++i) {
    const std::string layer = absl::StrCat(name, ".", i);
    FullyConnectedOptions fc;
    fc.width = options.hidden(i);
    x = FullyConnected(graph, layer, x, fc);
    if (options.batch_norm()) x = BatchNorm(graph, layer + ".norm", x);
    if (options.layer_norm()) x = LayerNorm(graph, layer + ".norm", x);
    x = Activate(graph, layer + ".activation", x, options.activation());
    if (options.dropout() > 0) x = Dropout(graph, layer + ".dropout", x, options.dropout());
  }
  return x;
}

Value MlpLogit(const MlpOptions& options, Value x, GraphBuilder* graph) {
  return FullyConnected(graph, "mlp.logit", Mlp(options, "mlp", x, graph), {});
}

}  // namespace starling
