#include "dense_net/target_attention.h"

namespace starling {

void CheckDin(const DinOptions& options, OptionCheck* check) { CheckSequenceModel(options, check); }

absl::Status FitDin(const GraphSpec& spec) {
  return CheckAttention(spec, spec.model().din().attention(), "din");
}

// DIN: each sequence as the sum of its events, weighted by what they have to do
// with the target.
Value BuildDin(const GraphSpec& spec, GraphBuilder* graph) {
  const DinOptions& options = spec.model().din();
  auto interest = [&](const std::string& name, const AttentionPair& pair) {
    const Value weights =
        AttentionWeights(AttentionMlp(options), options.attention_softmax(), name, pair, graph);
    return WeightedSum(graph, name + ".sum", weights, pair.events);
  };
  return SequenceModel(spec, options, interest, graph);
}

}  // namespace starling
