// What DIN and DIEN share: sequences, each beside the target it is seen from.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "dense_net/models.h"

namespace starling {

using AttentionEntries = google::protobuf::RepeatedPtrField<AttentionEntry>;

// InvalidArgument unless each entry names sequences of one block and as many
// pooled features, of the same dims, and every sequence is read by one entry.
absl::Status CheckAttention(const GraphSpec& spec, const AttentionEntries& entries,
                            const char* model);

// The events of a sequence (positions, d) and the target (rows, d). `embedding`
// is the model's EmbeddingInput.
struct AttentionPair {
  Value events, target;
};
AttentionPair AttentionInputs(const GraphSpec& spec, const AttentionEntry& entry,
                              const std::string& name, Value embedding, GraphBuilder* graph);

// (positions, 1): `mlp` and a linear layer over what the pair's AttentionInput
// says of each event; by `softmax` a row's weights are positive and sum to 1.
Value AttentionWeights(const MlpOptions& mlp, bool softmax, const std::string& name,
                       const AttentionPair& pair, GraphBuilder* graph);

// The layers of an attention, from the options of DIN or DIEN.
template <typename Options>
MlpOptions AttentionMlp(const Options& options) {
  MlpOptions mlp;
  *mlp.mutable_hidden() = options.attention_hidden();
  if (mlp.hidden().empty()) {
    mlp.add_hidden(64);
    mlp.add_hidden(32);
  }
  mlp.set_activation(options.attention_activation());
  return mlp;
}
// DIN's and DIEN's options: the attention's layers, and those on top.
template <typename Options>
void CheckSequenceModel(const Options& options, OptionCheck* check) {
  check->Widths("attention_hidden", options.attention_hidden());
  check->Deep(options);
}

// The model around the sequences: an MLP over what `interest`(name, pair) makes of
// each, the pooled embeddings and raws.
template <typename Options, typename Interest>
Value SequenceModel(const GraphSpec& spec, const Options& options, const Interest& interest,
                    GraphBuilder* graph) {
  const Inputs inputs = MakeInputs(spec, graph, true);
  std::vector<Value> parts = {DeepInput(inputs, graph)};
  for (int i = 0; i < options.attention_size(); ++i) {
    const std::string name = absl::StrCat("attention.", i);
    parts.push_back(
        interest(name, AttentionInputs(spec, options.attention(i), name, inputs.embedding, graph)));
  }
  return MlpLogit(DeepPart(options), Concat(graph, "interests", std::move(parts)), graph);
}

}  // namespace starling
