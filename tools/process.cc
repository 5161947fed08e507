#include "tools/process.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

extern char** environ;

namespace starling {

absl::StatusOr<Process> Process::Start(const std::vector<std::string>& args) {
  std::vector<char*> argv = {const_cast<char*>("starling")};
  for (const std::string& a : args) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  pid_t pid;
  int error = posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, argv.data(), environ);
  if (error != 0)
    return absl::InternalError(absl::StrCat("cannot start a process: ", std::strerror(error)));
  return Process(pid);
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), ended_(other.ended_), exit_code_(other.exit_code_) {}

Process::~Process() {
  if (pid_ < 0 || Ended()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool Process::Ended() {
  if (ended_) return true;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  ended_ = true;
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return true;
}

void Process::Terminate() {
  if (pid_ >= 0 && !Ended()) kill(pid_, SIGTERM);
}

bool Process::WaitFor(absl::Duration limit) {
  absl::Time end = absl::Now() + limit;
  while (!Ended()) {
    if (absl::Now() >= end) return false;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return true;
}

}  // namespace starling
