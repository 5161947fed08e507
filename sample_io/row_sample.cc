#include "sample_io/row_sample.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "sample_io/derive.h"

namespace starling {
namespace {

constexpr double kTimesMax = 1000;     // Expected of one row.
constexpr int64_t kGrowthMax = 16;     // Rows taken, per row of the part …
constexpr int64_t kGrowthRows = 4096;  // … beyond so many.
constexpr double kPieceMax = 16;       // exp(-16) is still far from rounding to 0.

// A Poisson number, as the sum of numbers of smaller means. `draw` counts on.
int64_t Poisson(double mean, uint64_t key, uint64_t* draw) {
  int64_t total = 0;
  while (mean > 0) {
    const double piece = std::min(mean, kPieceMax);
    mean -= piece;
    double term = std::exp(-piece), sum = term;
    const double u = RandomUniform(key, (*draw)++);
    for (int64_t k = 1; u >= sum && term > 0; ++k) {
      term *= piece / static_cast<double>(k);
      sum += term;
      ++total;
    }
  }
  return total;
}

// What is wrong with a weight; empty if nothing.
std::string Fault(const Column& weights, int64_t row, double rate) {
  if (weights.IsNull(row)) return "the weight is null";
  const double weight = NumberAt(weights, row);
  if (!(weight >= 0) || !std::isfinite(weight)) {
    return absl::StrCat("the weight is ", weight, ", not a number of at least 0");
  }
  if (rate * weight <= kTimesMax) return "";
  return absl::StrCat("the weight is ", weight, ": the row would be taken ", rate * weight,
                      " times, more than ", kTimesMax);
}

}  // namespace

absl::StatusOr<RowSample> SampleRows(const SampleOptions& options, const Column* weights,
                                     int64_t rows, uint64_t key) {
  RowSample sample;
  for (int64_t row = 0; row < rows; ++row) {
    double mean = options.rate();
    if (weights != nullptr) {
      if (std::string fault = Fault(*weights, row, mean); !fault.empty()) {
        sample.unfit.push_back({row, std::move(fault)});
        continue;
      }
      mean *= NumberAt(*weights, row);
    }
    const uint64_t of_row = RandomBits(key, static_cast<uint64_t>(row));
    uint64_t draw = 0;
    const int64_t times =
        options.replacement() ? Poisson(mean, of_row, &draw) : RandomUniform(of_row, draw) < mean;
    sample.rows.insert(sample.rows.end(), times, row);
    if (static_cast<int64_t>(sample.rows.size()) <= kGrowthMax * rows + kGrowthRows) continue;
    return absl::FailedPreconditionError(absl::StrCat("sampling takes more than ", kGrowthMax,
                                                      " times as many rows as there are ", rows,
                                                      "; lower data.sample.rate or the weights"));
  }
  return sample;
}

}  // namespace starling
