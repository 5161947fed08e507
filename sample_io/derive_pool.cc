// pool: the numbers of a row (say, the prices of what a user saw) become one. A
// row without a number is a null.
#include <cmath>

#include "base/status.h"
#include "sample_io/derive.h"

namespace starling {
namespace {

class Pool : public Derivation {
 public:
  explicit Pool(IdFeature::Pooling pooling) : pooling_(pooling) {}

  absl::Status Derive(const DeriveInput& in, Derived* out, RowFaults*) const override {
    const Column& from = *in.columns[0].column;
    RETURN_IF_ERROR(CheckNumbers(from, "what is pooled"));
    for (int64_t row = 0; row < in.rows; ++row) {
      const ValueRange values = in.columns[0].ValuesAt(row);
      double sum = 0;
      for (int64_t i = values.begin; i < values.end; ++i) sum += NumberAt(from, i);
      const double n = static_cast<double>(values.size());
      if (pooling_ == IdFeature::MEAN) sum /= n;
      if (pooling_ == IdFeature::SQRTN) sum /= std::sqrt(n);
      PushNumber(values.size() > 0 ? std::optional(sum) : std::nullopt, &out->column);
    }
    return absl::OkStatus();
  }

 private:
  const IdFeature::Pooling pooling_;
};

}  // namespace

DerivationOr NewPool(const DeriveStep& step, int inputs) {
  RETURN_IF_ERROR(CheckInputs(inputs, 1, 1));
  return std::make_unique<Pool>(step.pool().pooling());
}

}  // namespace starling
