// starling: finds the verb, checks its flags, runs it, and turns its Status
// into an exit code.
#include <gflags/gflags.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/synchronization/mutex.h"
#include "base/status.h"
#include "base/sync_point.h"
#include "base/yaml_proto.h"
#include "tools/process.h"
#include "tools/verb.h"

namespace starling {
namespace {

void PrintOverview(FILE* out) {
  std::fprintf(out,
               "Starling trains click-through and ranking models on sparse ids.\n\n"
               "usage: starling VERB [flags]    starling VERB --help\n\n");
  for (const Verb& v : AllVerbs()) std::fprintf(out, "  %-12s %s\n", v.name, v.summary);
  std::fprintf(out,
               "\nExit codes: 0 ok, 2 usage or config, 3 data, 4 numeric abort, 5 corruption,\n"
               "138 worth retrying, 143 stopped by SIGTERM after a clean save.\n");
}

void PrintHelp(const Verb& verb) {
  std::printf("%s\n\nusage: %s\n\n", verb.summary, verb.usage);
  for (const char* name : verb.flags) {
    if (std::strcmp(name, "set") == 0) {
      std::printf("  --%-18s set a config value, as in --set train.epochs=2; may be repeated\n",
                  "set a.b=v");
      continue;
    }
    gflags::CommandLineFlagInfo info;
    if (!gflags::GetCommandLineFlagInfo(name, &info)) continue;
    std::string shown =
        info.default_value.empty() ? "" : absl::StrCat(" (default ", info.default_value, ")");
    std::printf("  --%-18s %s%s\n", name, info.description.c_str(), shown.c_str());
  }
}

bool Takes(const Verb& verb, absl::string_view flag) {
  for (const char* name : verb.flags) {
    if (flag == name) return true;
  }
  return false;
}

// Checks one `--name[=value]` against the verb and moves it to gflags' argv or
// to call.set. `i` moves on if the value is the next argument.
absl::Status TakeFlag(const Verb& verb, const std::vector<std::string>& args, size_t* i,
                      VerbCall* call) {
  std::string name = args[*i].substr(args[*i].find_first_not_of('-'));
  std::string value;
  bool has_value = false;
  if (size_t eq = name.find('='); eq != std::string::npos) {
    value = name.substr(eq + 1);
    name = name.substr(0, eq);
    has_value = true;
  }
  gflags::CommandLineFlagInfo info;
  if (!Takes(verb, name)) {
    std::vector<std::string> names(verb.flags.begin(), verb.flags.end());
    return absl::InvalidArgumentError(
        absl::StrCat("starling ", verb.name, " has no flag --", name, DidYouMean(name, names)));
  }
  bool is_bool = gflags::GetCommandLineFlagInfo(name.c_str(), &info) && info.type == "bool";
  if (!has_value && !is_bool) {
    if (*i + 1 >= args.size())
      return absl::InvalidArgumentError(absl::StrCat("--", name, " needs a value"));
    value = args[++*i];
  } else if (!has_value) {
    value = "true";
  }
  if (name == "set") {
    call->set.push_back(value);
    return absl::OkStatus();
  }
  if (gflags::SetCommandLineOption(name.c_str(), value.c_str()).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, " takes a ", info.type, ", not \"", value, "\""));
  }
  return absl::OkStatus();
}

absl::Status RunVerb(const Verb& verb, const std::vector<std::string>& args) {
  VerbCall call;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--help" || args[i] == "-h") {
      PrintHelp(verb);
      return absl::OkStatus();
    }
    if (absl::StartsWith(args[i], "--") && args[i].size() > 2) {
      RETURN_IF_ERROR(TakeFlag(verb, args, &i, &call));
    } else {
      call.args.push_back(args[i]);
    }
  }
  return verb.run(call);
}

// STARLING_KILL_AT=name:n, where the name may hold colons itself.
void ReadKillAt() {
  const char* value = std::getenv("STARLING_KILL_AT");
  if (value == nullptr) return;
  absl::string_view at = value;
  size_t colon = at.rfind(':');
  int nth = 0;
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(at.substr(colon + 1), &nth)) {
    std::fprintf(stderr, "STARLING_KILL_AT=%s: not NAME:N\n", value);
    std::exit(kExitUsage);
  }
  KillAtSyncPoint(at.substr(0, colon), nth);
}

int Main(int argc, char** argv) {
  DieWithParent();
  ReadKillAt();
  if (argc < 2 || !std::strcmp(argv[1], "--help") || !std::strcmp(argv[1], "help")) {
    PrintOverview(argc < 2 ? stderr : stdout);
    return argc < 2 ? kExitUsage : kExitOk;
  }
  std::vector<std::string> names;
  for (const Verb& verb : AllVerbs()) {
    if (!std::strcmp(argv[1], verb.name)) {
      absl::Status status = RunVerb(verb, std::vector<std::string>(argv + 2, argv + argc));
      if (!status.ok())
        std::fprintf(stderr, "starling %s: %s\n", verb.name, std::string(status.message()).c_str());
      return ExitCodeOf(status);
    }
    names.push_back(verb.name);
  }
  std::fprintf(stderr, "starling: no verb \"%s\"%s\n", argv[1], DidYouMean(argv[1], names).c_str());
  return kExitUsage;
}

}  // namespace
}  // namespace starling

int main(int argc, char** argv) {
  // Arrow's usual allocator, mimalloc, was seen to hold twice what is in use.
  setenv("ARROW_DEFAULT_MEMORY_POOL", "jemalloc", /*overwrite=*/0);
  // Debian's Abseil searches every lock for deadlocks, under one lock of the whole
  // process. Tests keep that on.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return starling::Main(argc, argv);
}
