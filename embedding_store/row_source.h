// RowSource: where a scorer reads rows from. Implemented by EmbeddingTable
// (training), by the read-only table of a bundle (serving), and by a remote one.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace starling {

class RowSource {
 public:
  virtual ~RowSource() = default;
  // Copies the weights of ids[i] to row i of `weights`, shape (ids, width). An
  // unknown id reads as zeros and stays unknown. Ids are unique.
  virtual absl::Status Lookup(std::span<const uint64_t> ids, std::span<float> weights) const = 0;
  virtual int width() const = 0;  // Weights per row.
};

}  // namespace starling
