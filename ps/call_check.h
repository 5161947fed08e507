// The shapes of one pull or push, checked alike wherever the store is.
#pragma once

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "ps/parameter_store.h"

namespace starling {

// InvalidArgument, naming the table, unless there are keys and floats for
// every table of the config and floats[t] is (ids, widths[t]).
absl::Status CheckCallSizes(const StoreConfig& config, std::span<const int> widths,
                            std::span<const TableKeys> tables, std::span<const size_t> floats);

template <typename Float>
absl::Status CheckCall(const StoreConfig& config, std::span<const int> widths,
                       std::span<const TableKeys> tables,
                       std::span<const std::span<Float>> floats) {
  std::vector<size_t> sizes;
  for (const std::span<Float>& f : floats) sizes.push_back(f.size());
  return CheckCallSizes(config, widths, tables, sizes);
}

}  // namespace starling
