// What DIN and DIEN share: sequences, each beside the target it is seen from.
#pragma once

#include <string>

#include "absl/status/status.h"
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
// The layers on top.
template <typename Options>
MlpOptions TopMlp(const Options& options) {
  MlpOptions mlp;
  *mlp.mutable_hidden() = options.hidden();
  mlp.set_activation(options.activation());
  mlp.set_dropout(options.dropout());
  mlp.set_batch_norm(options.batch_norm());
  return mlp;
}

}  // namespace starling
