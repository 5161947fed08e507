// ModelHost: the model that a serving node answers with, kept current.
//
// Given a bundle, it serves that one. Given a publication root, it starts with
// the newest version that loads and goes on looking for newer ones: each is
// loaded aside, tried on with an empty row, and swapped in. A version that
// cannot be served is reported on stderr once and skipped: it is corrupt, of
// another model, or lacks an input of the version being served (whose clients
// would fail).
//
// Thread-safe. A version lives until the last caller lets go of it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "serving/predictor.h"

namespace starling {

class ModelHost {
 public:
  // NotFound if there is neither bundle nor version; DataLoss, naming the
  // file, if there is none that loads.
  static absl::StatusOr<std::unique_ptr<ModelHost>> Open(const std::string& path, double watch_s);
  virtual ~ModelHost() = default;  // Stops looking.
  virtual std::shared_ptr<const Predictor> current() const = 0;
};

}  // namespace starling
