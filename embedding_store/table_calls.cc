// What calls of every EmbeddingTable have in common, whatever is behind it.
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "embedding_store/embedding_table.h"

namespace starling {

absl::Status EmbeddingTable::CheckSizes(size_t ids, size_t floats) const {
  if (floats == ids * width()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("table ", spec().options().name(), ": ", floats,
                                                 " floats for ", ids, " ids of width ", width()));
}

absl::Status EmbeddingTable::CheckLengths(size_t ids, std::initializer_list<size_t> others) {
  for (size_t n : others) {
    if (n == 0 || n == ids) continue;
    return absl::InvalidArgumentError(
        "counts, event_times and places must be empty or as long as ids");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<FileSetEntry>> EmbeddingTable::Snapshot(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<TableSnapshot> snapshot, StartSnapshot(path, {}));
  return snapshot->Wait();
}

}  // namespace starling
