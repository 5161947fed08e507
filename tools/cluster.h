// A Cluster: parameter servers and workers as child processes on this machine.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/process.h"
#include "tools/verb.h"

namespace starling {

class Cluster {
 public:
  explicit Cluster(const std::string& dir) : dir_(dir) {}  // For port files and cold tiers.
  ~Cluster();                                              // Kills what still runs, removes dir.

  // Returns when all listen.
  absl::Status StartServers(int servers);
  // Workers read the job of `call`.
  absl::Status StartWorkers(const VerbCall& call, int workers, const std::string& launcher);
  // *running: workers not yet at their end. Once a server has ended, or a worker
  // other than well, an error of the same kind as that process's: Unavailable if it was killed.
  absl::Status Check(int* running);

  const std::vector<std::string>& addresses() const { return addresses_; }
  void AwaitServers();  // After they were told to stop.

 private:
  const std::string dir_;
  std::vector<Process> servers_, workers_;
  std::vector<std::string> addresses_;  // Of servers.
};

}  // namespace starling
