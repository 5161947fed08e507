// Predictor: columns → scores, by the same compiler, table reads and network
// as training. Thread-safe; one per loaded bundle.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sample_io/columns.h"
#include "sample_io/feature_compiler.h"
#include "serving/bundle.h"

namespace starling {

class Predictor {
 public:
  static absl::StatusOr<std::unique_ptr<Predictor>> Create(std::unique_ptr<Bundle> bundle);
  virtual ~Predictor() = default;

  virtual const Bundle& bundle() const = 0;
  // Names of the model's outputs: "probability", or its tasks'.
  virtual const std::vector<std::string>& outputs() const = 0;
  // The outputs of each row, (rows, outputs), NaN for a row that is listed in `bad`
  // (which may be null: then a bad row is InvalidArgument, naming row and column).
  virtual absl::StatusOr<std::vector<float>> Predict(const ColumnBatch& columns,
                                                     std::vector<BadRow>* bad) const = 0;
};

}  // namespace starling
