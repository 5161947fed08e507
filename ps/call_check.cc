#include "ps/call_check.h"

#include "absl/strings/str_cat.h"

namespace starling {

absl::Status CheckCallSizes(const StoreConfig& config, std::span<const int> widths,
                            std::span<const TableKeys> tables, std::span<const size_t> floats) {
  if (tables.size() != widths.size() || floats.size() != widths.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the call names ", tables.size(), " tables, the store has ", widths.size()));
  }
  for (size_t t = 0; t < tables.size(); ++t) {
    const TableKeys& keys = tables[t];
    size_t n = keys.ids.size();
    bool fits = (keys.counts.empty() || keys.counts.size() == n) &&
                (keys.event_times.empty() || keys.event_times.size() == n) &&
                floats[t] == n * widths[t];
    if (!fits) {
      return absl::InvalidArgumentError(absl::StrCat(
          "table ", config.tables().tables(static_cast<int>(t)).options().name(), ": ", n,
          " ids of width ", widths[t], " come with ", floats[t], " floats, ", keys.counts.size(),
          " counts and ", keys.event_times.size(), " event times"));
    }
  }
  return absl::OkStatus();
}

}  // namespace starling
