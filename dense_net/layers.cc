// Parts that models share.
#include <algorithm>
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

std::string RawFeatureOf(const std::string& column) { return column.substr(0, column.find('[')); }

bool HasFeature(const GraphSpec& spec, const std::string& name) {
  return std::any_of(spec.slots().begin(), spec.slots().end(),
                     [&](const SlotSpec& slot) { return slot.name() == name; }) ||
         std::any_of(spec.raws().begin(), spec.raws().end(),
                     [&](const std::string& raw) { return RawFeatureOf(raw) == name; });
}

Value FeatureColumns(const GraphSpec& spec, const FeatureNames& names, const Inputs& inputs,
                     const std::string& name, GraphBuilder* graph) {
  auto listed = [&](const std::string& feature) {
    return std::find(names.begin(), names.end(), feature) != names.end();
  };
  std::vector<ColumnRange> embeddings, raws;
  int begin = 0;
  for (const SlotSpec& slot : spec.slots()) {
    if (listed(slot.name())) embeddings.push_back({begin, slot.embedding_dim()});
    begin += slot.embedding_dim();
  }
  for (int i = 0; i < spec.raws_size(); ++i) {
    if (listed(RawFeatureOf(spec.raws(i)))) raws.push_back({i, 1});
  }
  std::vector<Value> parts;
  if (!embeddings.empty()) {
    parts.push_back(Columns(graph, name + ".embedding", inputs.embedding, embeddings));
  }
  if (!raws.empty()) parts.push_back(Columns(graph, name + ".raw", inputs.raw, raws));
  return Concat(graph, name + ".input", std::move(parts));
}

Value LinearLogit(const GraphSpec& spec, const Inputs& inputs, GraphBuilder* graph) {
  const Value ids = LinearInput(graph, spec);
  if (inputs.raw.id < 0) return ids;
  FullyConnectedOptions one;
  one.bias = false;
  one.init = Init::kZero;
  return Add(graph, "first_order", {ids, FullyConnected(graph, "linear.raw", inputs.raw, one)});
}

namespace {

Value NormAndActivate(const MlpOptions& options, const std::string& layer, Value x,
                      GraphBuilder* graph) {
  if (options.batch_norm()) x = BatchNorm(graph, layer + ".norm", x);
  if (options.layer_norm()) x = LayerNorm(graph, layer + ".norm", x);
  return Activate(graph, layer + ".activation", x, options.activation());
}

Value ResidualBlock(const MlpOptions& options, const std::string& name, Value x,
                    GraphBuilder* graph) {
  const ResidualOptions& residual = options.residual();
  FullyConnectedOptions first, second;
  first.width = x.width * (residual.kind() == ResidualOptions::WIDE ? residual.factor() : 1);
  second.width = x.width;
  const int groups = residual.groups();
  Value h = residual.kind() == ResidualOptions::GROUPED
                ? GroupedLinear(graph, name + ".1", x, groups, x.width / groups)
                : FullyConnected(graph, name + ".1", x, first);
  h = NormAndActivate(options, name + ".1", h, graph);
  h = FullyConnected(graph, name + ".2", h, second);
  const Value sum = Add(graph, name + ".add", {x, h});
  return Activate(graph, name + ".activation", sum, options.activation());
}

}  // namespace

Value Mlp(const MlpOptions& options, std::string name, Value x, GraphBuilder* graph) {
  for (int i = 0; i < options.hidden_size(); ++i) {
    const std::string layer = absl::StrCat(name, ".", i);
    FullyConnectedOptions fc;
    fc.width = options.hidden(i);
    x = FullyConnected(graph, layer, x, fc);
    x = NormAndActivate(options, layer, x, graph);
    for (int b = 0; options.has_residual() && b < options.residual().blocks(); ++b) {
      x = ResidualBlock(options, absl::StrCat(layer, ".block.", b), x, graph);
    }
    if (options.dropout() > 0) x = Dropout(graph, layer + ".dropout", x, options.dropout());
  }
  return x;
}

Value MlpLogit(const MlpOptions& options, Value x, GraphBuilder* graph) {
  return FullyConnected(graph, "mlp.logit", Mlp(options, "mlp", x, graph), {});
}

}  // namespace starling
