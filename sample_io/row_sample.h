// Sampling of a split's rows (or requests): how often each is taken in a pass.
//
// A row is taken rate × weight times on average: at most once without
// replacement, a Poisson number of times with it. Draws are independent, so that
// splits can be sampled each for itself, by any worker, and every row of the
// data has its chance by its own weight, whatever stands beside it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sample_io/columns.h"
#include "sample_io/data.pb.h"

namespace starling {

struct RowSample {
  std::vector<int64_t> rows;  // Taken, ascending; one that is taken twice stands twice.
  struct Unfit {
    int64_t row;
    std::string reason;
  };
  std::vector<Unfit> unfit;  // Rows whose weight is null, or no number of at least 0.
};

// Of rows 0 .. rows - 1, as a function of `key` alone. `weights` is null for
// rows of equal weight, else has one number a row. FailedPrecondition if so many
// are taken that a part's memory would be many times that of its rows.
absl::StatusOr<RowSample> SampleRows(const SampleOptions& options, const Column* weights,
                                     int64_t rows, uint64_t key);

}  // namespace starling
