#include "absl/strings/str_cat.h"
#include "dense_net/target_attention.h"

namespace starling {

// DIN: each sequence as the sum of its events, weighted by what they have to do
// with the target; then an MLP over these, the pooled embeddings and raws.
Value BuildDin(const GraphSpec& spec, GraphBuilder* graph) {
  const DinOptions& options = spec.model().din();
  const Inputs inputs = MakeInputs(spec, graph, true);
  std::vector<Value> parts = {DeepInput(inputs, graph)};
  for (int i = 0; i < options.attention_size(); ++i) {
    const std::string name = absl::StrCat("attention.", i);
    const AttentionPair pair =
        AttentionInputs(spec, options.attention(i), name, inputs.embedding, graph);
    const Value weights =
        AttentionWeights(AttentionMlp(options), options.attention_softmax(), name, pair, graph);
    parts.push_back(WeightedSum(graph, name + ".sum", weights, pair.events));
  }
  return MlpLogit(TopMlp(options), Concat(graph, "interests", std::move(parts)), graph);
}

}  // namespace starling
