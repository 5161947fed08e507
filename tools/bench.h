// What benchmarks share. A reference is measured in the same run, alternating
// with the value; medians count.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace starling {

struct BenchResult {
  std::string bench, what, unit, reference;
  std::vector<double> values, reference_values;  // One each per alternation.
  double ratio_bound = 1;  // What the ratio could be at most; 0: no bound is known.
};

// Prints it, as one JSON line with --json.
void Report(const BenchResult& result);

// Prints figures that have no reference of their own, likewise one line each time.
void ReportFigures(const std::string& bench, const std::string& what,
                   const std::vector<std::pair<std::string, double>>& figures);
double Median(std::vector<double> values);  // REQUIRES: not empty.

// Those of --only, or all. InvalidArgument for one that `bench` does not have.
absl::StatusOr<std::set<std::string>> CasesAsked(const std::string& bench,
                                                 const std::vector<std::string>& names);

absl::Status BenchTrain(bool quick);
absl::Status BenchPipeline(bool quick);
absl::Status BenchDense(bool quick);
absl::Status BenchStore(bool quick);
absl::Status BenchRead(bool quick);
absl::Status BenchCheckpoint(bool quick);
absl::Status BenchCrash(bool quick);

}  // namespace starling
