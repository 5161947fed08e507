// The name of one batch. It belongs to the data, never to the process: a
// replay, by whichever worker, reuses it, and a server applies it once.
#pragma once

#include <compare>
#include <cstdint>

namespace starling {

struct BatchName {
  uint64_t job = 0;    // Hash of the job's name.
  uint32_t pass = 0;   // Epoch.
  uint32_t split = 0;  // Ordinal of the split in the job's file list.
  uint32_t batch = 0;  // Ordinal inside the split.

  auto operator<=>(const BatchName&) const = default;
};

}  // namespace starling
