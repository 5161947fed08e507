// AdmissionFilter decides whether an unknown id gets a row. It counts sights
// (impressions) in a counting Bloom filter of fixed size, so endless new ids
// cost no memory; a collision can only admit an id early, never late. An id
// once admitted stays admitted, also after its row expired or was erased.
//
// An id is admitted when its sights reach its threshold:
//   always        1
//   count: n      n
//   probability   drawn once per id from the geometric distribution of
//                 "sights until the first success", by (table seed, id). Each
//                 sight then succeeds with the given chance, and a replay or
//                 another order of ids decides alike.
//
// The state goes into snapshots. Merging takes the larger of two counters, so
// states of several shards can be joined, and one state given to several shards.
//
// Thread safety: none; the stripe's lock guards it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "embedding_store/table.pb.h"

namespace starling {

class AdmissionFilter {
 public:
  // Counters are 16 bits wide, so no threshold is above this.
  static constexpr uint32_t kThresholdMax = 65535;
  // InvalidArgument if a count or probability is out of range.
  static absl::Status Check(const AdmitOptions& options);

  // Takes at most bytes_max (rounded down to a power of two), or nothing when
  // every id is admitted at once.
  AdmissionFilter(const AdmitOptions& options, uint64_t table_seed, int64_t bytes_max);

  // Counts `sights` more of `id`; true if it has reached its threshold.
  bool Admit(uint64_t id, uint32_t sights);
  uint32_t Threshold(uint64_t id) const;

  int64_t bytes() const { return static_cast<int64_t>(counters_.size() * sizeof(uint16_t)); }
  absl::string_view Serialize() const;  // Valid until the next change.
  // Takes in the state of another filter, of this or another size.
  // InvalidArgument if the bytes cannot be one.
  absl::Status Merge(absl::string_view bytes);

 private:
  const AdmitOptions options_;
  const uint64_t seed_;
  std::vector<uint16_t> counters_;  // Empty, or a power of two.
};

}  // namespace starling
