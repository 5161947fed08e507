#include "sample_io/mixing.h"

#include <algorithm>
#include <map>
#include <string>

namespace starling {

Mixing MixingOf(const std::vector<Split>& splits, const std::vector<uint32_t>& order,
                uint32_t shard, uint32_t shards) {
  std::vector<const Split*> leased;
  std::map<std::string, int64_t> rows_of;  // By partition: in the pass, then in the window.
  int64_t rows = 0;
  auto partition = [](const Split& split) { return split.file.substr(0, split.file.rfind('/')); };
  for (size_t i = shard; i < order.size(); i += shards) {
    leased.push_back(&splits[order[i]]);
    rows_of[partition(*leased.back())] += leased.back()->rows;
    rows += leased.back()->rows;
  }
  Mixing out;
  out.partitions = static_cast<int>(rows_of.size());
  out.window = std::min<int>(8 * out.partitions, static_cast<int>(leased.size() + 1) / 2);
  auto largest = [&] {
    int64_t most = 0;
    for (const auto& [name, count] : rows_of) most = std::max(most, count);
    return static_cast<double>(most) / static_cast<double>(std::max<int64_t>(rows, 1));
  };
  out.even_share = largest();
  rows_of.clear();
  rows = 0;
  for (size_t i = 0; i < leased.size(); ++i) {
    rows_of[partition(*leased[i])] += leased[i]->rows;
    rows += leased[i]->rows;
    if (i >= static_cast<size_t>(out.window)) {
      const Split& gone = *leased[i - out.window];
      rows_of[partition(gone)] -= gone.rows;
      rows -= gone.rows;
    }
    if (i + 1 >= static_cast<size_t>(out.window))
      out.worst_share = std::max(out.worst_share, largest());
  }
  return out;
}

}  // namespace starling
