// TimerThread: runs functions later, one after another, on a thread of its
// own. For deadlines and retries: the functions must be short.
//
// Thread safety: any method, any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "absl/time/time.h"

namespace starling {

class TimerThread {
 public:
  // Called once: with false when its time has come, or with true when the
  // TimerThread stops before that.
  using Fn = std::function<void(bool stopped)>;

  TimerThread() : thread_([this] { Run(); }) {}
  ~TimerThread() { Stop(); }
  TimerThread(const TimerThread&) = delete;
  TimerThread& operator=(const TimerThread&) = delete;

  void After(absl::Duration delay, Fn fn);
  // Calls what waits, ends the thread; what comes later is called at once.
  // Not from the thread itself, nor twice at the same time.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;
  void Run();

  std::mutex mu_;  // Guards all but the thread.
  std::condition_variable changed_;
  std::multimap<Clock::time_point, Fn> waiting_;
  bool stop_ = false;
  std::thread thread_;
};

// For std::chrono's clocks, whose range an infinite duration would leave.
std::chrono::nanoseconds ToChronoBounded(absl::Duration d);

}  // namespace starling
