// PsServer: a ParameterStore behind RPC, the whole of `starling ps`. Service
// "starling.Ps"; methods Configure, Pull, Push, Prefetch, Save, Load, Stats, Stop.
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
  // Returns when Stop was called, here or by RPC.
  virtual void Wait() = 0;
  virtual void Stop() = 0;
};

}  // namespace starling
