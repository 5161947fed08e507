#include "dense_net/target_attention.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace starling {
namespace {

const SlotSpec* FindSlot(const GraphSpec& spec, const std::string& name) {
  for (const SlotSpec& slot : spec.slots()) {
    if (slot.name() == name) return &slot;
  }
  return nullptr;
}

// The slots that `names` are, all sequences or none of them.
absl::Status CheckSlots(const GraphSpec& spec,
                        const google::protobuf::RepeatedPtrField<std::string>& names,
                        bool sequences, const std::string& where) {
  for (const std::string& name : names) {
    const SlotSpec* slot = FindSlot(spec, name);
    if (slot == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, "`", name, "` is not an id feature of the job"));
    }
    if (slot->has_sequence() == sequences) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        where, "`", name,
        sequences ? "` is pooled: write it as a `sequence` with max_length and without pooling"
                  : "` is a sequence, not the target that it is seen from"));
  }
  return absl::OkStatus();
}

absl::Status CheckEntry(const GraphSpec& spec, const AttentionEntry& entry,
                        const std::string& where) {
  if (entry.sequence().empty() || entry.sequence_size() != entry.target_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, "give as many of target as of sequence: ", entry.sequence_size(),
                     " and ", entry.target_size(), " are given"));
  }
  RETURN_IF_ERROR(CheckSlots(spec, entry.sequence(), true, where + "sequence "));
  RETURN_IF_ERROR(CheckSlots(spec, entry.target(), false, where + "target "));
  const SlotSpec& first = *FindSlot(spec, entry.sequence(0));
  for (int i = 0; i < entry.sequence_size(); ++i) {
    const SlotSpec& slot = *FindSlot(spec, entry.sequence(i));
    const SlotSpec& target = *FindSlot(spec, entry.target(i));
    if (slot.sequence() != first.sequence()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, "`", slot.name(), "` and `", first.name(),
                       "` are of different sequences: list them in one `sequence` block, or give "
                       "each an entry of its own"));
    }
    if (slot.embedding_dim() == target.embedding_dim()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        where, "dim ", slot.embedding_dim(), " of `", slot.name(), "` differs from dim ",
        target.embedding_dim(), " of its target `", target.name(), "`"));
  }
  return absl::OkStatus();
}

// Columns of the slot `name` in EmbeddingInput.
ColumnRange RangeOf(const GraphSpec& spec, const std::string& name) {
  ColumnRange range;
  for (const SlotSpec& slot : PooledSlots(spec)) {
    range.width = slot.embedding_dim();
    if (slot.name() == name) break;
    range.begin += range.width;
  }
  return range;
}

}  // namespace

absl::Status CheckAttention(const GraphSpec& spec, const AttentionEntries& entries,
                            const char* model) {
  if (entries.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model ", model,
                     ": attention lists no sequence, as in [{sequence: seen_item, target: item}]"));
  }
  std::vector<std::string> read;
  for (int i = 0; i < entries.size(); ++i) {
    RETURN_IF_ERROR(
        CheckEntry(spec, entries[i], absl::StrCat("model ", model, ": attention[", i, "]: ")));
    read.insert(read.end(), entries[i].sequence().begin(), entries[i].sequence().end());
  }
  for (const SlotSpec& slot : spec.slots()) {
    if (!slot.has_sequence() || std::count(read.begin(), read.end(), slot.name()) == 1) continue;
    const bool none = std::find(read.begin(), read.end(), slot.name()) == read.end();
    return absl::InvalidArgumentError(
        absl::StrCat("model ", model, ": sequence `", slot.name(), "` is read by ",
                     none ? "no entry" : "several entries", " of attention"));
  }
  return absl::OkStatus();
}

AttentionPair AttentionInputs(const GraphSpec& spec, const AttentionEntry& entry,
                              const std::string& name, Value embedding, GraphBuilder* graph) {
  std::vector<SlotSpec> slots;
  std::vector<ColumnRange> ranges;
  for (const std::string& sequence : entry.sequence()) slots.push_back(*FindSlot(spec, sequence));
  for (const std::string& target : entry.target()) ranges.push_back(RangeOf(spec, target));
  AttentionPair pair;
  pair.events = SequenceInput(graph, name + ".events", std::move(slots));
  pair.target = Columns(graph, name + ".target", embedding, std::move(ranges));
  return pair;
}

Value AttentionWeights(const MlpOptions& mlp, bool softmax, const std::string& name,
                       const AttentionPair& pair, GraphBuilder* graph) {
  const Value input = AttentionInput(graph, name + ".input", pair.target, pair.events);
  const Value top = Mlp(mlp, name, input, graph);
  const Value weights = FullyConnected(graph, name + ".logit", top, {});
  return softmax ? SequenceSoftmax(graph, name + ".softmax", weights) : weights;
}

}  // namespace starling
