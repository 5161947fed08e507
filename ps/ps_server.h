// PsServer: a ParameterStore behind RPC, the whole of `starling ps`. Service
// "starling.Ps"; methods Configure, Pull, Push, Prefetch, Cut, CutStatus, Forget, Load,
// Stats, Stop, described in ps.proto. The store exists from the first Configure or Load on.
//
// Thread safety: any method, any thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace starling {

struct PsServerOptions {
  std::string address = "127.0.0.1:0";
  int shard = 0;
  int shards = 1;
  std::string scratch_dir;  // For the tables' cold tiers.
  int threads = 2;
};

class PsServer {
 public:
  static absl::StatusOr<std::unique_ptr<PsServer>> Start(const PsServerOptions& options);
  virtual ~PsServer() = default;
  virtual int port() const = 0;
  // Returns when Stop was called, here or by RPC, and nothing is served any more.
  virtual void Wait() = 0;
  // Ends serving, after what is running has been answered. Also on destruction.
  virtual void Stop() = 0;
};

}  // namespace starling
