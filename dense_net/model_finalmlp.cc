#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dense_net/models.h"

namespace starling {
namespace {

using Names = google::protobuf::RepeatedPtrField<std::string>;

int SlotOf(const GraphSpec& spec, const std::string& name) {
  for (int s = 0; s < spec.slots_size(); ++s) {
    if (spec.slots(s).name() == name) return s;
  }
  return -1;
}

// The embeddings of the named features, side by side.
Value Context(const GraphSpec& spec, std::string name, const Names& features, Value embedding,
              GraphBuilder* graph) {
  std::vector<ColumnRange> ranges;
  for (const std::string& feature : features) {
    const int slot = SlotOf(spec, feature);
    int begin = 0;
    for (int s = 0; s < slot; ++s) begin += spec.slots(s).embedding_dim();
    ranges.push_back({begin, spec.slots(slot).embedding_dim()});
  }
  return Columns(graph, name, embedding, ranges);
}

bool Lists(const Names& names, const std::string& feature) {
  return std::find(names.begin(), names.end(), feature) != names.end();
}

// The features that the MLPs read.
Names MlpFeatures(const GraphSpec& spec) {
  const FinalMlpOptions& options = spec.model().finalmlp();
  Names names;
  for (const SlotSpec& slot : spec.slots()) {
    const bool gates = Lists(options.gate1(), slot.name()) || Lists(options.gate2(), slot.name());
    if (!gates || !options.gate_only()) *names.Add() = slot.name();
  }
  for (const std::string& raw : spec.raws()) *names.Add() = RawFeatureOf(raw);
  return names;
}

// x, each column times 2 * sigmoid of what an MLP makes of the context.
Value Gate(const GraphSpec& spec, std::string name, const Names& features, const Inputs& inputs,
           Value x, GraphBuilder* graph) {
  const FinalMlpOptions& options = spec.model().finalmlp();
  if (features.empty()) return x;
  MlpOptions hidden;
  *hidden.mutable_hidden() = options.gate_hidden();
  const Value context = Context(spec, name + ".context", features, inputs.embedding, graph);
  FullyConnectedOptions top;
  top.width = x.width;
  Value gate = FullyConnected(graph, name + ".logit", Mlp(hidden, name, context, graph), top);
  gate = Activate(graph, name + ".sigmoid", gate, MlpOptions::SIGMOID);
  return Multiply(graph, name + ".product", x, gate, 2);
}

absl::Status CheckGate(const GraphSpec& spec, const char* key, const Names& features) {
  for (const std::string& feature : features) {
    if (SlotOf(spec, feature) >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("model finalmlp: ", key, ": no id feature `", feature, "`"));
  }
  return absl::OkStatus();
}

}  // namespace

void CheckFinalMlp(const FinalMlpOptions& options, OptionCheck* check) {
  check->Range("heads", options.heads(), 1, 1024);
  check->Widths("gate_hidden", options.gate_hidden());
  for (const auto& [key, mlp] :
       {std::pair("mlp1", &options.mlp1()), std::pair("mlp2", &options.mlp2())}) {
    check->Deep(*mlp, key);
    const int last = mlp->hidden_size() == 0 ? 0 : *mlp->hidden().rbegin();
    check->Require(last > 0 && (options.heads() < 1 || last % options.heads() == 0), key,
                   absl::StrCat("its last width, ", last,
                                ", must be a multiple of heads, which is ", options.heads()));
  }
}

absl::Status FitFinalMlp(const GraphSpec& spec) {
  const FinalMlpOptions& options = spec.model().finalmlp();
  if (auto s = CheckGate(spec, "gate1", options.gate1()); !s.ok()) return s;
  if (auto s = CheckGate(spec, "gate2", options.gate2()); !s.ok()) return s;
  if (!MlpFeatures(spec).empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "model finalmlp: gate_only: all features are the gates', and the MLPs have none: name one "
      "column twice, as in {id: user, name: gate_user}");
}

// FinalMLP: two MLPs, each on its own view of the input, fused by first-order
// terms and a bilinear form of their outputs.
Value BuildFinalMlp(const GraphSpec& spec, GraphBuilder* graph) {
  const FinalMlpOptions& options = spec.model().finalmlp();
  const Inputs inputs = MakeInputs(spec, graph, true);
  const Value x = options.gate_only()
                      ? FeatureColumns(spec, MlpFeatures(spec), inputs, "mlps", graph)
                      : DeepInput(inputs, graph);
  const Value x1 = Gate(spec, "gate1", options.gate1(), inputs, x, graph);
  const Value x2 = Gate(spec, "gate2", options.gate2(), inputs, x, graph);
  const Value y1 = Mlp(options.mlp1(), "mlp1", x1, graph);
  const Value y2 = Mlp(options.mlp2(), "mlp2", x2, graph);
  FullyConnectedOptions no_bias;
  no_bias.bias = false;
  const Value first = FullyConnected(graph, "logit.1", y1, {});
  const Value second = FullyConnected(graph, "logit.2", y2, no_bias);
  const Value both = Bilinear(graph, "fusion", y1, y2, options.heads());
  return Add(graph, "logit", {first, second, both});
}

}  // namespace starling
