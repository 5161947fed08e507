// bench crash: the crash harness of tests/crash, for a person. It kills this
// same binary again and again and compares every row with a count over the data.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "tools/bench.h"

extern char** environ;

namespace starling {
namespace {

// tools/soak of the source tree that this binary was built in:
// <root>/build/<preset>/tools/starling.
absl::StatusOr<std::string> FindSoak(const std::filesystem::path& binary) {
  for (auto dir = binary.parent_path(); dir.has_relative_path(); dir = dir.parent_path()) {
    std::string soak = (dir / "tools" / "soak").string();
    if (PathExists(soak)) return soak;
  }
  return absl::NotFoundError(absl::StrCat(
      binary.string(), ": not inside its source tree, whose tools/soak does the work; there, run ",
      "tools/soak --binary ", binary.string()));
}

}  // namespace

absl::Status BenchCrash(bool quick) {
  std::error_code error;
  const std::filesystem::path binary = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::InternalError("/proc/self/exe cannot be read");
  ASSIGN_OR_RETURN(std::string soak, FindSoak(binary));
  for (const char* what : {"train", "launch", "two_workers", "online"}) {
    const std::string path = binary.string();
    const char* argv[] = {soak.c_str(),       "--what",   what,         "--kills",
                          quick ? "1" : "60", "--binary", path.c_str(), nullptr};
    pid_t pid;
    int code = posix_spawn(&pid, soak.c_str(), nullptr, nullptr, const_cast<char**>(argv), environ);
    if (code != 0)
      return absl::InternalError(absl::StrCat(soak, ": cannot be run: ", std::strerror(code)));
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      return absl::DataLossError(
          absl::StrCat("the crash harness failed (", what, "); see the lines above"));
    }
  }
  return absl::OkStatus();
}

}  // namespace starling
