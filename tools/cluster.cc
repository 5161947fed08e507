#include "tools/cluster.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "tools/flags.h"
#include "tools/job.h"

namespace starling {
namespace {

absl::Status EndedStatus(absl::string_view who, int code) {
  std::string message = absl::StrCat(who, " ended with exit code ", code);
  switch (code) {
    case kExitUsage:
      return absl::InvalidArgumentError(message);
    case kExitData:
      return absl::FailedPreconditionError(message);
    case kExitNumeric:
      return absl::AbortedError(message);
    case kExitCorruption:
      return absl::DataLossError(message);
    default:
      return absl::UnavailableError(message);
  }
}

// The port a server wrote to its file, as soon as it is there.
absl::StatusOr<int> AwaitPort(const std::string& file, Process* server) {
  while (!StopRequested()->load()) {
    absl::StatusOr<std::string> text = ReadFile(file);
    int port;
    if (text.ok() && absl::SimpleAtoi(*text, &port)) return port;
    if (server->Ended()) return EndedStatus("a parameter server", server->exit_code());
    absl::SleepFor(absl::Milliseconds(10));
  }
  return absl::CancelledError("stopped while servers were starting");
}

}  // namespace

Cluster::~Cluster() {
  workers_.clear();
  servers_.clear();
  RemoveAll(dir_).IgnoreError();
}

absl::Status Cluster::StartServers(int servers) {
  RETURN_IF_ERROR(MakeDirs(dir_));
  for (int i = 0; i < servers; ++i) {
    std::string base = JoinPath(dir_, absl::StrCat("ps-", i));
    ASSIGN_OR_RETURN(Process p, Process::Start({"ps", "--shard", absl::StrCat(i), "--shards",
                                                absl::StrCat(servers), "--port_file",
                                                base + ".port", "--scratch", base}));
    servers_.push_back(std::move(p));
  }
  for (int i = 0; i < servers; ++i) {
    std::string file = JoinPath(dir_, absl::StrCat("ps-", i, ".port"));
    ASSIGN_OR_RETURN(int port, AwaitPort(file, &servers_[i]));
    addresses_.push_back(absl::StrCat("127.0.0.1:", port));
  }
  return absl::OkStatus();
}

absl::Status Cluster::StartWorkers(const VerbCall& call, int workers, const std::string& launcher) {
  for (int i = 0; i < workers; ++i) {
    std::vector<std::string> args = {"worker",
                                     "--config",
                                     FLAGS_config,
                                     "--servers",
                                     absl::StrJoin(addresses_, ","),
                                     "--worker",
                                     absl::StrCat(i),
                                     "--workers",
                                     absl::StrCat(workers),
                                     "--launcher",
                                     launcher};
    for (const std::string& s : call.set) args.insert(args.end(), {"--set", s});
    ASSIGN_OR_RETURN(Process p, Process::Start(args));
    workers_.push_back(std::move(p));
  }
  return absl::OkStatus();
}

absl::Status Cluster::Check(int* running) {
  *running = 0;
  for (size_t i = 0; i < servers_.size(); ++i) {
    if (servers_[i].Ended())
      return EndedStatus(absl::StrCat("server ", i), servers_[i].exit_code());
  }
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i].Ended()) {
      ++*running;
    } else if (workers_[i].exit_code() != 0) {
      return EndedStatus(absl::StrCat("worker ", i), workers_[i].exit_code());
    }
  }
  return absl::OkStatus();
}

void Cluster::AwaitServers() {
  for (Process& s : servers_) s.WaitFor(absl::Seconds(10));
}

}  // namespace starling
