#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dense_net/graph_passes.h"

namespace starling {
namespace {

// Equal strings, equal outputs. Empty: the op equals none but itself.
std::string KeyOf(const Op& op, const std::vector<int>& new_id) {
  std::string key = op.Key();
  if (key.empty()) return key;
  for (const Value& input : op.inputs()) absl::StrAppend(&key, " #", new_id[input.id]);
  return key;
}

}  // namespace

void MergeCommonOps(Graph* graph) {
  std::map<std::string, int> seen;
  std::vector<int> new_id(graph->ops.size(), -1);
  std::vector<std::unique_ptr<Op>> ops;
  for (size_t i = 0; i < graph->ops.size(); ++i) {
    const std::string key = KeyOf(*graph->ops[i], new_id);
    const int next = static_cast<int>(ops.size());
    new_id[i] = key.empty() ? next : seen.try_emplace(key, next).first->second;
    if (new_id[i] == next) ops.push_back(std::move(graph->ops[i]));
  }
  graph->ops = std::move(ops);
  Renumber(new_id, graph);
}

}  // namespace starling
