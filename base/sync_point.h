// Named places in the code where a test can stop, delay, or kill the process.
// Nothing is registered in production: the cost is one relaxed load.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace starling {

namespace sync_point_internal {
extern std::atomic<bool> enabled;
void Reach(const char* name);
}  // namespace sync_point_internal

// `handler` is called at every sync point with its name; null turns it off.
void SetSyncPointHandler(std::function<void(absl::string_view)> handler);

// Raises SIGKILL at the n-th time that `name` is reached, after a line on stderr. main calls it for
// STARLING_KILL_AT=name:n in the environment.
void KillAtSyncPoint(absl::string_view name, int nth);

}  // namespace starling

#define STARLING_SYNC_POINT(name)                                                              \
  do {                                                                                         \
    if (::starling::sync_point_internal::enabled.load(std::memory_order_relaxed)) [[unlikely]] \
      ::starling::sync_point_internal::Reach(name);                                            \
  } while (0)
