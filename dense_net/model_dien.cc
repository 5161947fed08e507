#include "absl/strings/str_cat.h"
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

// DIEN: the interest that each sequence has evolved to, then an MLP over these,
// the pooled embeddings and raws.
Value BuildDien(const GraphSpec& spec, GraphBuilder* graph) {
  const DienOptions& options = spec.model().dien();
  const Inputs inputs = MakeInputs(spec, graph, true);
  std::vector<Value> parts = {DeepInput(inputs, graph)};
  for (int i = 0; i < options.attention_size(); ++i) {
    const std::string name = absl::StrCat("attention.", i);
    const AttentionPair pair =
        AttentionInputs(spec, options.attention(i), name, inputs.embedding, graph);
    parts.push_back(Evolution(options, name, pair, graph));
  }
  return MlpLogit(TopMlp(options), Concat(graph, "interests", std::move(parts)), graph);
}

}  // namespace starling
