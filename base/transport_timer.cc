#include "base/transport_timer.h"

#include <algorithm>
#include <utility>

namespace starling {

std::chrono::nanoseconds ToChronoBounded(absl::Duration d) {
  return absl::ToChronoNanoseconds(std::clamp(d, absl::ZeroDuration(), absl::Hours(24) * 365));
}

void TimerThread::After(absl::Duration delay, Fn fn) {
  {
    std::lock_guard lock(mu_);
    if (!stop_) {
      waiting_.emplace(Clock::now() + ToChronoBounded(delay), std::move(fn));
      fn = nullptr;
    }
  }
  changed_.notify_one();
  if (fn != nullptr) fn(true);
}

void TimerThread::Run() {
  std::unique_lock lock(mu_);
  while (!stop_ || !waiting_.empty()) {
    if (waiting_.empty()) {
      changed_.wait(lock);
      continue;
    }
    auto first = waiting_.begin();
    if (!stop_ && first->first > Clock::now()) {
      changed_.wait_until(lock, Clock::time_point(first->first));
      continue;
    }
    Fn fn = std::move(first->second);
    bool stopped = stop_;
    waiting_.erase(first);
    lock.unlock();
    fn(stopped);
    fn = nullptr;
    lock.lock();
  }
}

void TimerThread::Stop() {
  {
    std::lock_guard lock(mu_);
    stop_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

}  // namespace starling
