#include "ps/ps_server.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/transport.h"
#include "ps/ps_service.h"

namespace starling {
namespace {

class Server final : public PsServer {
 public:
  explicit Server(const PsServerOptions& options) : service_(options, [this] { SignalStop(); }) {}
  ~Server() override { Stop(); }

  absl::Status Listen(const PsServerOptions& options) {
    RpcServerOptions rpc;
    rpc.address = options.address;
    rpc.threads = options.threads;
    ASSIGN_OR_RETURN(rpc_,
                     StartRpcServer(rpc, [this](absl::string_view service, absl::string_view method,
                                                RpcMessage request, RpcDone reply) {
                       service_.Handle(service, method, request, reply);
                     }));
    port_ = rpc_->port();
    return absl::OkStatus();
  }

  int port() const override { return port_; }

  void Wait() override {
    {
      std::unique_lock lock(mu_);
      stopped_.wait(lock, [this] { return stop_; });
    }
    Stop();
  }

  void Stop() override {
    SignalStop();
    std::lock_guard lock(rpc_mu_);
    rpc_ = nullptr;
  }

 private:
  void SignalStop() {
    std::lock_guard lock(mu_);
    stop_ = true;
    stopped_.notify_all();
  }

  PsService service_;
  int port_ = 0;
  std::mutex mu_;  // Guards stop_.
  std::condition_variable stopped_;
  bool stop_ = false;
  std::mutex rpc_mu_;  // Guards rpc_, whose end waits for handlers, which may take mu_.
  std::unique_ptr<RpcServer> rpc_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PsServer>> PsServer::Start(const PsServerOptions& options) {
  if (options.shards < 1 || options.shard < 0 || options.shard >= options.shards ||
      options.shards > static_cast<int>(kBuckets) || options.threads < 1) {
    return absl::InvalidArgumentError(absl::StrCat("no server can be shard ", options.shard, " of ",
                                                   options.shards, " with ", options.threads,
                                                   " threads"));
  }
  auto server = std::make_unique<Server>(options);
  RETURN_IF_ERROR(server->Listen(options));
  return server;
}

}  // namespace starling
