// From a model in memory to a bundle on disk.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "scheduler/model.h"

namespace starling {

// Writes the model as a bundle to `out`; with `publish`, as the next version
// under the publication root `out`. Nothing may train meanwhile. It appears only
// after `ready`, if given, has returned ok. Returns the bundle's directory.
absl::StatusOr<std::string> ExportModel(LocalModel* model, const TrainerState& state,
                                        const std::string& name, const std::string& out,
                                        bool publish,
                                        const std::function<absl::Status()>& ready = nullptr);

// The step of the newest version under the publication root `root`; -1 if there is none.
absl::StatusOr<int64_t> PublishedStep(const std::string& root);

}  // namespace starling
