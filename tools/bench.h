// What benchmarks share. A reference is measured in the same run, alternating
// with the value; medians count.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace starling {

struct BenchResult {
  std::string bench, what, unit, reference;
  std::vector<double> values, reference_values;  // One each per alternation.
  double ratio_bound = 1;                        // What the ratio could be at most.
};

// Prints it, as one JSON line with --json.
void Report(const BenchResult& result);

absl::Status BenchTrain(bool quick);

}  // namespace starling
