#include "base/sync_point.h"

#include <csignal>
#include <cstdio>
#include <memory>

#include "absl/synchronization/mutex.h"

namespace starling {
namespace sync_point_internal {

std::atomic<bool> enabled{false};
absl::Mutex mu;
std::shared_ptr<std::function<void(absl::string_view)>> handler ABSL_GUARDED_BY(mu);

void Reach(const char* name) {
  std::shared_ptr<std::function<void(absl::string_view)>> h;
  {
    absl::MutexLock lock(&mu);
    h = handler;
  }
  if (h != nullptr) (*h)(name);
}

}  // namespace sync_point_internal

void SetSyncPointHandler(std::function<void(absl::string_view)> handler) {
  absl::MutexLock lock(&sync_point_internal::mu);
  sync_point_internal::enabled = handler != nullptr;
  sync_point_internal::handler =
      handler == nullptr
          ? nullptr
          : std::make_shared<std::function<void(absl::string_view)>>(std::move(handler));
}

void KillAtSyncPoint(absl::string_view name, int nth) {
  auto left = std::make_shared<std::atomic<int>>(nth);
  SetSyncPointHandler([left, wanted = std::string(name)](absl::string_view reached) {
    if (reached != wanted || left->fetch_sub(1) != 1) return;
    std::fprintf(stderr, "KILLED at sync point %s\n", wanted.c_str());
    std::raise(SIGKILL);
  });
}

}  // namespace starling
