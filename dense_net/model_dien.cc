#include "dense_net/target_attention.h"

namespace starling {
namespace {

Value GruOver(const std::string& name, Value x, Value weights, int hidden, GraphBuilder* graph) {
  FullyConnectedOptions gates;
  gates.width = 3 * hidden;
  return Gru(graph, name, FullyConnected(graph, name + ".gates", x, gates), weights);
}

// One sequence: interests from events by a GRU, which the auxiliary loss teaches
// what came next; then their way to the target by a second one, whose steps are
// as large as the attention to the target. The last state.
Value Evolution(const DienOptions& options, const std::string& name, const AttentionPair& pair,
                GraphBuilder* graph) {
  const int d = pair.events.width;
  const Value interests = GruOver(name + ".extraction", pair.events, {}, d, graph);
  if (options.auxiliary_weight() > 0) {
    AuxiliaryLoss(graph, name + ".auxiliary", interests, pair.events, options.auxiliary_weight());
  }
  const Value weights =
      AttentionWeights(AttentionMlp(options), true, name, {interests, pair.target}, graph);
  Value states;
  if (options.evolution() == DienOptions::AIGRU) {
    const Value scaled = ScaleRows(graph, name + ".scaled", weights, interests);
    states = GruOver(name + ".evolution", scaled, {}, d, graph);
  } else {
    states = GruOver(name + ".evolution", interests, weights, d, graph);
  }
  return SequencePool(graph, name + ".last", states, SequencePooling::kLast);
}

}  // namespace

void CheckDien(const DienOptions& options, OptionCheck* check) {
  check->AtLeast("auxiliary_weight", options.auxiliary_weight(), 0);
  CheckSequenceModel(options, check);
}

absl::Status FitDien(const GraphSpec& spec) {
  return CheckAttention(spec, spec.model().dien().attention(), "dien");
}

// DIEN: the interest that each sequence has evolved to.
Value BuildDien(const GraphSpec& spec, GraphBuilder* graph) {
  const DienOptions& options = spec.model().dien();
  auto interest = [&](const std::string& name, const AttentionPair& pair) {
    return Evolution(options, name, pair, graph);
  };
  return SequenceModel(spec, options, interest, graph);
}

}  // namespace starling
