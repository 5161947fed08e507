// An EmbeddingTable of ids over an EmbeddingTable of part rows
// (embedding_store/multi_hash.h). EmbeddingTable::Open returns it for a table
// whose options say multi_hash. It keeps no state of its own.
//
// What the promises of EmbeddingTable mean here:
// - Lookup and LookupOrCreate give combined weights. Admission, TTL, frequency and
//   the memory budget are those of part rows: a part is seen as often as all
//   ids that share it, at the latest of their event times.
// - ApplyGradients: a part's gradient is the sum over its ids; a part without a
//   row is skipped, the other one learns. For multiply the factors are the
//   weights at the call; another call at the same moment may see them before
//   or after its own step.
// - ApplyDeltas is refused with FailedPrecondition: what a change of two ids means
//   for the row they share is not defined.
// - Erase changes nothing: other ids live in the same rows.
// - Snapshots, ForEach, rows and stats speak of part rows, by part id. Restore
//   passes part ids to `keep`: a table is restored whole, or by part.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "embedding_store/embedding_table.h"

namespace starling {

// `rows` has a spec with multi_hash. InvalidArgument if its settings are not valid.
absl::StatusOr<std::unique_ptr<EmbeddingTable>> WrapMultiHash(std::unique_ptr<EmbeddingTable> rows);

}  // namespace starling
