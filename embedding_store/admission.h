// AdmissionFilter decides whether an unknown id gets a row. It counts sights
// (impressions); an id is admitted when its sights reach its threshold:
//   always          1
//   count: n        n, counted in a counting Bloom filter of fixed size. A
//                   collision can admit an id early, never late. An id once
//                   admitted stays admitted, also after its row expired or was
//                   erased.
//   exact_count: n  n, with one counter per id that was seen and has no row
//                   yet. While they fit no id is admitted early or late. When
//                   they do not, all are halved, as often as it takes, and
//                   those at zero are dropped: ids come late then, the rare
//                   ones most, and still none early. An id whose row went is
//                   counted from zero.
//   probability     drawn once per id from the geometric distribution of
//                   "sights until the first success", by (table seed, id). Each
//                   sight then succeeds with the given chance, and a replay or
//                   another order of ids decides alike. Counted as count is.
//
// Its memory is fixed, so endless new ids cost none. The state goes into
// snapshots. Merging takes the larger of two counters, so states of several
// shards can be joined, and one state given to several shards.
//
// Thread safety: none; the stripe's lock guards it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "embedding_store/table.pb.h"

namespace starling {

class AdmissionFilter {
 public:
  // Counters are 16 bits wide, so no threshold is above this.
  static constexpr uint32_t kThresholdMax = 65535;
  // InvalidArgument if a count or probability is out of range.
  static absl::Status Check(const AdmitOptions& options);

  // Takes at most bytes_max, or 64 bytes if that is less (1 KiB for
  // exact_count), or nothing when every id is admitted at once.
  AdmissionFilter(const AdmitOptions& options, uint64_t table_seed, int64_t bytes_max);

  // Counts `sights` more of `id`; true if it has reached its threshold. It is
  // true again until the caller says that the id has a row.
  bool Admit(uint64_t id, uint32_t sights);
  void HasRow(uint64_t id);
  uint32_t Threshold(uint64_t id) const;

  int64_t bytes() const;
  // Appends the state; nothing, if every id is admitted. See docs/formats.md.
  void AppendTo(std::string* out) const;
  // Takes in the state of another filter, of this or another size; of exact
  // counters those whose id `owns` accepts. The state of the other kind of
  // counting says nothing here and is passed over. InvalidArgument if the
  // bytes cannot be a state.
  absl::Status Merge(absl::string_view bytes, const std::function<bool(uint64_t)>& owns);

 private:
  bool AdmitExact(uint64_t id, uint32_t sights);
  void MakeRoom();  // For one more exact counter.
  absl::Status MergeBloom(absl::string_view bytes);
  absl::Status MergeExact(absl::string_view bytes, const std::function<bool(uint64_t)>& owns);

  const AdmitOptions options_;
  const uint64_t seed_;
  std::vector<uint16_t> counters_;  // Of the Bloom filter: empty, or a power of two.
  absl::flat_hash_map<uint64_t, uint16_t> exact_;
  size_t exact_max_ = 0;  // 0: the rule is another one.
};

// The states of a snapshot's stripes, one behind the other: u32 their number,
// then for each u64 its length and its bytes.
// DataLoss if the bytes cannot be such states.
absl::StatusOr<std::vector<absl::string_view>> SplitAdmissionStates(absl::string_view bytes);

}  // namespace starling
