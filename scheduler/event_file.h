// Writes scalars to a TensorBoard event file: TFRecord framing (length, masked
// CRC32C, payload, masked CRC32C) around Event messages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace starling {

class EventFile {
 public:
  // A new file in `dir`, which is created. Each Scalar is flushed, so that
  // TensorBoard can follow a run.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(const std::string& dir);
  virtual ~EventFile() = default;
  virtual absl::Status Scalar(absl::string_view tag, int64_t step, double value) = 0;
};

}  // namespace starling
