// The server's side of the default transport. Handlers run on the loop's
// threads beside the sockets; a slow one holds one thread.
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/transport.h"
#include "base/transport_io.h"
#include "base/transport_timer.h"

namespace starling {
namespace {

constexpr size_t kConnectionsMax = 4096;
constexpr size_t kErrorTextMax = 4096;
constexpr absl::Duration kFlushTime = absl::Seconds(1);

class Server final : public RpcServer {
 public:
  Server(const RpcServerOptions& options, RpcHandler handler)
      : handler_(std::move(handler)), loop_(IoLoop::Start(options.threads)) {}

  absl::Status Listen(const RpcServerOptions& options) {
    ASSIGN_OR_RETURN(listener_,
                     loop_->Listen(options.address, options.message_bytes_max,
                                   [this](std::shared_ptr<FrameStream> s) { Accept(s); }));
    return absl::OkStatus();
  }

  // Handlers that run come to their end and their replies are sent, if the
  // peer takes them in time; calls that wait for a later reply are lost.
  ~Server() override {
    listener_ = nullptr;
    std::unique_lock lock(mu_);
    stopping_ = true;
    changed_.wait(lock, [this] { return handlers_ == 0; });
    for (auto& [raw, stream] : streams_) stream->CloseWhenSent();
    changed_.wait_for(lock, ToChronoBounded(kFlushTime), [this] { return streams_.empty(); });
    for (auto& [raw, stream] : streams_) stream->Close(absl::UnavailableError("stopped"));
  }

  int port() const override { return listener_->port(); }

 private:
  void Accept(const std::shared_ptr<FrameStream>& stream) {
    FrameStream* raw = stream.get();
    {
      std::lock_guard lock(mu_);
      if (stopping_ || streams_.size() >= kConnectionsMax) return;  // Closes it.
      streams_[raw] = stream;
    }
    stream->Start([this, weak = std::weak_ptr(stream)](
                      RpcFrame frame) { Dispatch(weak.lock(), std::move(frame)); },
                  [this, raw](const absl::Status&) {
                    std::lock_guard lock(mu_);
                    streams_.erase(raw);
                    changed_.notify_all();
                  });
  }

  // Leaves the connection free for the next frame while the handler runs.
  void Dispatch(std::shared_ptr<FrameStream> stream, RpcFrame frame) {
    stream->Hold(frame.bytes());
    auto request = std::make_shared<RpcFrame>(std::move(frame));
    loop_->Post([this, stream = std::move(stream), request] { Handle(stream, *request); });
  }

  void Handle(const std::shared_ptr<FrameStream>& stream, RpcFrame& request) {
    {
      std::lock_guard lock(mu_);
      if (stopping_) return;
      ++handlers_;
    }
    RpcDone reply = [stream, id = request.meta.correlation_id(),
                     held = request.bytes()](absl::StatusOr<RpcMessage> result) {
      SendReply(*stream, id, held, std::move(result));
    };
    if (!request.meta.has_request() || request.meta.compress_type() != 0) {
      reply(absl::UnimplementedError("only plain requests, without compression, are served"));
    } else {
      RpcMessage message{std::move(request.body), std::move(request.attachment)};
      handler_(request.meta.request().service_name(), request.meta.request().method_name(),
               std::move(message), std::move(reply));
    }
    std::lock_guard lock(mu_);
    --handlers_;
    changed_.notify_all();
  }

  static void SendReply(FrameStream& stream, int64_t id, int64_t held,
                        absl::StatusOr<RpcMessage> result) {
    RpcFrame frame;
    frame.meta.set_correlation_id(id);
    BaiduResponseMeta* response = frame.meta.mutable_response();
    response->set_error_code(ErrorCodeOf(result.status()));
    if (result.ok()) {
      frame.body = std::move(result->body);
      frame.attachment = std::move(result->attachment);
    } else {
      response->set_error_text(std::string(result.status().message().substr(0, kErrorTextMax)));
    }
    if (auto head = EncodeFrameHead(frame); !head.ok()) {
      return SendReply(stream, id, held, Annotate(head.status(), "the reply"));
    }
    stream.Send(std::move(frame), held);
  }

  const RpcHandler handler_;
  std::mutex mu_;  // Guards the next four.
  std::condition_variable changed_;
  std::map<FrameStream*, std::shared_ptr<FrameStream>> streams_;
  int handlers_ = 0;  // Running now.
  bool stopping_ = false;

  std::unique_ptr<IoListener> listener_;
  const std::unique_ptr<IoLoop> loop_;  // Last, so destroyed first: its threads use all the above.
};

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> StartRpcServer(const RpcServerOptions& options,
                                                          RpcHandler handler) {
  auto server = std::make_unique<Server>(options, std::move(handler));
  RETURN_IF_ERROR(server->Listen(options));
  return server;
}

}  // namespace starling
