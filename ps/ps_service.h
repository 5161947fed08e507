// PsService: the calls of "starling.Ps" on a store, apart from any transport.
//
// Thread safety: any method, any thread. Handle answers before it returns; a
// Load takes as long as the store is large.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "base/transport.h"
#include "ps/attachment.h"
#include "ps/cut_task.h"
#include "ps/parameter_store.h"
#include "ps/ps_server.h"
#include "ps/shard_map.h"

namespace starling {

class PsService {
 public:
  // `on_stop` is called after Stop was answered.
  PsService(const PsServerOptions& options, std::function<void()> on_stop)
      : options_(options), map_(options.shards), on_stop_(std::move(on_stop)) {}

  void Handle(absl::string_view service, absl::string_view method, const RpcMessage& request,
              const RpcDone& reply);

 private:
  using StorePtr = std::shared_ptr<ParameterStore>;
  // Many may be inside; Close waits until none is and keeps others out.
  class Gate {
   public:
    void Enter();
    void Leave();
    void Close();
    void Open();

   private:
    std::mutex mu_;
    std::condition_variable changed_;
    int inside_ = 0;
    bool closed_ = false;
  };

  absl::StatusOr<RpcMessage> Configure(const RpcMessage& message);
  absl::StatusOr<RpcMessage> Pull(const RpcMessage& message);
  absl::StatusOr<RpcMessage> Push(const RpcMessage& message);
  absl::StatusOr<RpcMessage> Prefetch(const RpcMessage& message);
  absl::StatusOr<RpcMessage> Cut(const RpcMessage& message);
  absl::StatusOr<RpcMessage> CutStatus(const RpcMessage& message);
  absl::StatusOr<RpcMessage> Forget(const RpcMessage& message);
  absl::StatusOr<RpcMessage> Load(const RpcMessage& message);
  absl::StatusOr<RpcMessage> Stats();

  absl::StatusOr<StorePtr> Store(bool with_dense = false);
  absl::StatusOr<StorePtr> NewStore(const StoreConfig& config);
  absl::Status CheckShard(int shard, int shards) const;
  absl::Status CheckTables(const ParameterStore& store, int tables) const;
  absl::Status TakeIds(int64_t n, AttachmentReader& reader, TableKeys* keys) const;

  const PsServerOptions options_;
  const ShardMap map_;
  const std::function<void()> on_stop_;

  Gate pushes_;              // Closed by Cut and Load, so that they see one instant.
  std::mutex configure_mu_;  // Held by Configure and Load.
  int stores_ = 0;           // Made so far, under configure_mu_.
  std::mutex mu_;            // Guards the next two; not held while a call works.
  StorePtr store_;           // Null until configured.
  bool dense_set_ = false;
  std::mutex cut_mu_;  // Guards the next.
  std::unique_ptr<CutTask> cut_;
};

}  // namespace starling
