// A first look at data: how many distinct ids there will be, and how large batches are.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "sample_io/source.h"
#include "scheduler/plan.h"

namespace starling {

// Distinct ids of one table after half of the sampled rows and after all.
struct DistinctIds {
  int64_t rows_half = 0, rows = 0;
  int64_t ids_half = 0, ids = 0;
  int64_t ids_batch = 0;  // Of one batch, at most.

  // Distinct ids after `rows_all` rows, by Heaps' law: the number grows as a
  // power of the rows, which the two points give. The count itself when the
  // sample is all there is.
  double Extrapolate(int64_t rows_all) const;
};

struct IdSample {
  int64_t rows = 0, bad_rows = 0;
  int64_t batch_bytes = 0;  // Of the largest batch, compiled.
  std::vector<DistinctIds> tables;
};

// Reads the first splits, about `rows_max` rows of them, as training would.
// With `admit: {count: n}`, or exact_count, an id counts when it was seen n times.
absl::StatusOr<IdSample> SampleIds(const Plan& plan, const SampleSource& source, int64_t rows_max);

}  // namespace starling
