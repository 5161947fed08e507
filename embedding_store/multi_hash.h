// Multi-hash (quotient-remainder) embeddings: a vocabulary too large for a row
// an id is folded onto N * N pairs of rows. An id hashes to v in 0..N*N-1; its
// first row is number v / N of one part, its second number v % N of the other.
// Two ids share both rows with a chance of 1 in N * N only, and 2 N rows do.
//
// The rows of both parts stand in one ordinary table, under part ids: a frozen
// bijection of (part, number), so that checkpoints and bundles stay readable.
//
// Weights of an id, element by element, where a part without a row (unknown,
// expired or refused by admission) counts as zeros:
//   add       first + second
//   multiply  first * (1 + second): weights start at or near 0, and a product of
//             two such would start, and with init 0 stay, without a gradient.
// So an id of which no row is known reads as zeros under both.
//
// Training, evaluation and serving combine by these functions and no others.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "embedding_store/row_source.h"
#include "embedding_store/table.pb.h"

namespace starling {

// The parts of a batch of ids: each part id once, in the order of its first
// use, and for ids[i] where its two stand.
struct MultiHashParts {
  std::vector<uint64_t> ids;
  std::vector<uint32_t> first, second;
};

// InvalidArgument unless `rows` is within 2..2^28.
absl::Status CheckMultiHash(const MultiHashOptions& options);
// FailedPrecondition, beginning with `where`, if rows of a file written under
// `file` mean something else under `mine`.
absl::Status SameMultiHash(const std::string& where, const TableOptions& file,
                           const TableOptions& mine);

// For all below: `options` passes CheckMultiHash.
MultiHashParts SplitIds(const MultiHashOptions& options, std::span<const uint64_t> ids);
// weights (ids, width) from the parts' weights (parts.ids, width).
void CombineParts(const MultiHashOptions& options, const MultiHashParts& parts, int width,
                  std::span<const float> part_weights, std::span<float> weights);
// The gradient of every part, (parts.ids, width): summed over the ids that
// share it, in their order. `part_weights` is read for multiply alone.
std::vector<float> PartGradients(const MultiHashOptions& options, const MultiHashParts& parts,
                                 int width, std::span<const float> part_weights,
                                 std::span<const float> grads);

// Looks ids up in a source of part rows, as RowSource::Lookup does.
absl::Status MultiHashLookup(const MultiHashOptions& options, const RowSource& rows,
                             std::span<const uint64_t> ids, std::span<float> weights);

// A source of part rows as a source of ids' rows. `rows` outlives it.
class MultiHashSource : public RowSource {
 public:
  MultiHashSource(const MultiHashOptions& options, const RowSource* rows)
      : options_(options), rows_(rows) {}
  absl::Status Lookup(std::span<const uint64_t> ids, std::span<float> weights) const override {
    return MultiHashLookup(options_, *rows_, ids, weights);
  }
  int width() const override { return rows_->width(); }

 private:
  const MultiHashOptions options_;
  const RowSource* const rows_;
};

}  // namespace starling
