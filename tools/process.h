// This process, and children of the same binary for `launch`.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace starling {

// main calls it: a child that Process has started is killed when its parent
// dies, however that happens. An orphan would go on writing into checkpoints.
void DieWithParent();

// Seconds since this process was started; it is known to some hundredths.
double ProcessAge();

// One `starling ARGS…` child. Killed when destroyed while it runs.
class Process {
 public:
  // stdout and stderr are this process's own. On the main thread only: the
  // child dies with the thread that started it.
  static absl::StatusOr<Process> Start(const std::vector<std::string>& args);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();

  // True once it has ended; exit_code() is then valid (128 + signal if killed).
  bool Ended();
  int exit_code() const { return exit_code_; }
  pid_t pid() const { return pid_; }
  void Terminate();                    // SIGTERM.
  bool WaitFor(absl::Duration limit);  // True if it ended in time.

 private:
  explicit Process(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
  bool ended_ = false;
  int exit_code_ = 0;
};

}  // namespace starling
