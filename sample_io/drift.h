// How far one data set's columns have moved from another's.
//
// The measure is the population stability index over bins, sum of
// (b - a) ln(b / a) with a and b the bins' shares in the reference and in the
// other, each taken as at least 0.0001. Common reading: below 0.1 steady,
// up to 0.25 moved, above it a different population.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sample_io/column_stats.h"

namespace starling {

inline constexpr double kPsiMoved = 0.1;
inline constexpr double kPsiDifferent = 0.25;

struct ColumnDrift {
  std::string name;
  // Over the column's values. Numbers: ten bins of equal share in the
  // reference's sample, and one each below its least and above its greatest
  // value; both sides' shares are those of their samples. Strings: the
  // reference's frequent values, 20 at most, and all others as one. Integers may be either,
  // an id or an amount: the greater of the two counts.
  double psi = 0;
  std::string bins;     // "quantiles", "ids", or "" if there is nothing to bin.
  double null_psi = 0;  // Over two bins: null and not null.
  double null_share_difference = 0;
  // Of the values (by count), the share that the reference never has, as far
  // as the kept counts can tell: none if the reference has more distinct
  // values than are kept; a range if the other has.
  std::optional<double> unseen_share_min, unseen_share_max;
  // Distinct values that the reference lacks, estimated from the merged
  // HyperLogLogs; none if no more than three standard errors.
  std::optional<int64_t> new_distinct;

  double drift() const { return psi > null_psi ? psi : null_psi; }
};

struct DataDrift {
  std::vector<ColumnDrift> columns;       // Greatest drift first, equal ones by name.
  std::vector<std::string> not_compared;  // "name: why", by name.
};

DataDrift CompareStats(const DataStats& reference, const DataStats& other);

// Sum of (b - a) ln(b / a) over the shares of `a` and `b`, counts by bin.
// REQUIRES: equal sizes; each sum is above 0.
double PopulationStability(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace starling
