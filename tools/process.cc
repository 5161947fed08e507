#include "tools/process.h"

#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/file.h"

extern char** environ;

namespace starling {
namespace {

constexpr char kParent[] = "STARLING_PARENT=";

}  // namespace

void DieWithParent() {
  const char* value = std::getenv("STARLING_PARENT");
  int parent = 0;
  if (value == nullptr || !absl::SimpleAtoi(value, &parent)) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(128 + SIGKILL);  // It was gone before.
  unsetenv("STARLING_PARENT");
}

double ProcessAge() {
  std::string stat;
  if (absl::StatusOr<std::string> text = ReadFile("/proc/self/stat"); text.ok()) stat = *text;
  // After the name, which may hold anything: state, then numbers, the 20th of which is the start.
  const std::vector<std::string> words = absl::StrSplit(
      stat.substr(std::min(stat.size(), stat.rfind(')') + 1)), ' ', absl::SkipEmpty());
  int64_t ticks = 0;
  if (words.size() < 20 || !absl::SimpleAtoi(words[19], &ticks)) return 0;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) -
         static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

absl::StatusOr<Process> Process::Start(const std::vector<std::string>& args) {
  std::vector<char*> argv = {const_cast<char*>("starling")};
  for (const std::string& a : args) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  const std::string parent = absl::StrCat(kParent, getpid());
  std::vector<char*> env;
  for (char** e = environ; *e != nullptr; ++e) env.push_back(*e);
  env.push_back(const_cast<char*>(parent.c_str()));
  env.push_back(nullptr);
  // A group of its own: Ctrl-C is for the launcher, which then ends its children in order.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid;
  int error = posix_spawn(&pid, "/proc/self/exe", nullptr, &attributes, argv.data(), env.data());
  posix_spawnattr_destroy(&attributes);
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
