// AppliedNames: the window of batch names whose gradients a store has applied.
// It is what makes a push exactly-once, and is part of every checkpoint.
//
// Batches of one split arrive almost in order, so a split is kept as a few
// intervals of ordinals: one when all is quiet, whatever its first ordinal.
//
// Bounded, in intervals a split and in splits. A full window forgets the
// oldest pass of the job, and from then on refuses names of that pass instead
// of guessing.
//
// Thread safety: any method, any thread.
#pragma once

#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/batch_name.h"

namespace starling {

class AppliedNames {
 public:
  explicit AppliedNames(size_t intervals_max = 1 << 16, size_t splits_max = 1 << 20)
      : intervals_max_(intervals_max), splits_max_(splits_max) {}

  // True: `name` is new, and the caller must apply it, then call Finish.
  // False: it has been applied. While another thread holds the name, waits for
  // its Finish. FailedPrecondition for a name older than the window,
  // ResourceExhausted if its split has too many gaps.
  absl::StatusOr<bool> Begin(const BatchName& name);
  // `applied` records the name; otherwise it stays new.
  void Finish(const BatchName& name, bool applied);

  bool Contains(const BatchName& name) const;
  int64_t size() const;  // Names in the window.

  // The bytes of an applied-*.bin file; see docs/formats.md.
  std::string Encode() const;
  // Adds the names of such a file, called `file` in errors: DataLoss if it is
  // damaged, and then nothing is added.
  absl::Status Merge(absl::string_view bytes, const std::string& file);

 private:
  struct Split {
    uint64_t job = 0;
    uint32_t pass = 0;
    uint32_t split = 0;
    auto operator<=>(const Split&) const = default;
  };
  // Disjoint, not adjacent: first ordinal → one past the last. 64 bits, so
  // that the last ordinal has a successor.
  using Intervals = std::map<uint64_t, uint64_t>;

  bool ContainsLocked(const BatchName& name) const;
  absl::Status MakeRoomLocked(const BatchName& name);
  absl::Status Decode(absl::string_view payload);  // Into an empty, unshared window.

  const size_t intervals_max_;
  const size_t splits_max_;
  mutable std::mutex mu_;  // Guards all below.
  std::condition_variable finished_;
  std::map<Split, Intervals> splits_;
  std::map<uint64_t, uint32_t> first_pass_;  // By job: older passes are forgotten.
  std::set<BatchName> under_way_;
};

}  // namespace starling
