// bucketize: a number becomes the number of its bucket, which is then hashed
// like any integer. Bucket b holds boundaries[b - 1] < x <= boundaries[b].
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sample_io/derive.h"

namespace starling {
namespace {

class Bucketize : public Derivation {
 public:
  explicit Bucketize(const DeriveStep::Bucketize& options)
      : boundaries_(options.boundaries().begin(), options.boundaries().end()) {}

  absl::Status Derive(const DeriveInput& in, Derived* out, RowFaults* faults) const override {
    const Column& from = *in.columns[0].column;
    RETURN_IF_ERROR(CheckNumbers(from, "what falls into buckets"));
    StartLists(ColumnType::kInt64, &out->column);
    for (int64_t row = 0; row < in.rows; ++row) {
      const ValueRange values = in.columns[0].ValuesAt(row);
      for (int64_t i = values.begin; i < values.end; ++i) {
        const double x = NumberAt(from, i);
        if (std::isnan(x)) faults->Add(row, from.name, "the value is nan: it has no bucket");
        auto bucket = std::lower_bound(boundaries_.begin(), boundaries_.end(), x);
        out->column.ints.push_back(bucket - boundaries_.begin());
      }
      RETURN_IF_ERROR(EndRow(&out->column));
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<double> boundaries_;
};

}  // namespace

DerivationOr NewBucketize(const DeriveStep& step, int inputs) {
  RETURN_IF_ERROR(CheckInputs(inputs, 1, 1));
  const auto& boundaries = step.bucketize().boundaries();
  for (int i = 0; i < boundaries.size(); ++i) {
    if (!std::isfinite(boundaries[i]) || (i > 0 && !(boundaries[i - 1] < boundaries[i]))) {
      return absl::InvalidArgumentError("boundaries must be finite and ascend");
    }
  }
  return std::make_unique<Bucketize>(step.bucketize());
}

}  // namespace starling
