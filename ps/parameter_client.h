// ParameterClient: how a trainer reaches parameters, wherever they are. Local
// (the store in this process) and remote (by ShardMap over RPC) behave alike.
//
// Calls are asynchronous: `done` runs exactly once, possibly before the call
// returns, on any thread. The memory behind the spans must stay until then.
// Thread safety: any method, any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/batch_name.h"
#include "ps/parameter_store.h"

namespace starling {

using ClientDone = std::function<void(absl::Status)>;

class ParameterClient {
 public:
  virtual ~ParameterClient() = default;

  // Rows of each table into weights[t], (ids, width), and, unless empty, all
  // dense parameters into `dense`. Sent again like Push; a server that got it
  // twice has counted its impressions twice.
  virtual void Pull(PullMode mode, std::span<const TableKeys> tables,
                    std::span<const std::span<float>> weights, std::span<float> dense,
                    ClientDone done) = 0;
  // Gradients of one batch, applied once per name however often it is sent;
  // the remote client resends on Unavailable and DeadlineExceeded for retry_s.
  virtual void Push(const BatchName& name, float lr_scale, std::span<const TableKeys> tables,
                    std::span<const std::span<const float>> grads,
                    std::span<const float> dense_grads, ClientDone done) = 0;
  // Tells the tiers that these rows are wanted soon. Never fails.
  virtual void Prefetch(std::span<const TableKeys> tables) = 0;
};

// `store` must outlive the client; calls run on the caller's thread.
std::unique_ptr<ParameterClient> NewLocalClient(ParameterStore* store);

struct RemoteClientOptions {
  std::vector<std::string> servers;  // host:port, in shard order.
  double timeout_s = 30;             // Of one call.
  double retry_s = 60;               // How long a failing call is tried again.
};
// Waits until every server answers, then gives each `config` (the first to
// come creates the store; another config is refused) and, if `initial_dense`
// is the first to arrive, the dense parameters.
absl::StatusOr<std::unique_ptr<ParameterClient>> NewRemoteClient(
    const RemoteClientOptions& options, const StoreConfig& config,
    std::span<const float> initial_dense);

// What the launcher asks of servers, beside the training calls. As a source of
// cuts it is all servers together, which write into a directory all can reach;
// one instant of all, since no worker may push meanwhile.
class PsControl : public CutSource {
 public:
  static absl::StatusOr<std::unique_ptr<PsControl>> Connect(
      const std::vector<std::string>& servers);
  // Each server takes its share of a checkpoint; see ParameterStore::Load.
  virtual absl::Status Load(const StoreConfig& config, const std::vector<StoredCut>& chain) = 0;
  struct Stats {
    int64_t batches_applied = 0, batches_repeated = 0, rows = 0;
  };
  virtual absl::StatusOr<std::vector<Stats>> GetStats() = 0;
  virtual absl::Status Stop() = 0;  // Servers exit after answering.
};

}  // namespace starling
