// Counts the rows of a pass and those that could not be used, keeps the latter
// in quarantine, and says when there are too many. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "sample_io/quarantine.h"

namespace starling {

class BadRows {
 public:
  // `quarantine` "": rows are only counted. `share_max` as in BatchReaderOptions.
  BadRows(double share_max, const std::string& quarantine, const std::vector<std::string>& columns);

  // Takes note of `seen` rows, good and bad. FailedPrecondition, naming the
  // worst column, once the share of bad rows is too large.
  absl::Status Add(int64_t seen, std::vector<QuarantinedRow> bad);
  // The pass is over: checks the share however few rows there were, and
  // completes the quarantine file.
  absl::Status Finish();
  // Completes the quarantine file. May be called at any time, and again.
  absl::Status Close();

  int64_t count() const { return count_; }

 private:
  struct Tally {
    int64_t count = 0;
    std::string first;  // Where and why.
  };
  absl::Status CheckShare() const;

  const double share_max_;
  std::unique_ptr<Quarantine> quarantine_;  // Null: none.
  bool closed_ = false;
  int64_t seen_ = 0;
  int64_t count_ = 0;
  std::map<std::string, Tally> by_column_;
};

}  // namespace starling
