#include "base/transport.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "base/transport_timer.h"

namespace starling {
namespace {

// Holds `done` until the first of reply, deadline and the channel's end.
class OnceDone {
 public:
  explicit OnceDone(RpcDone done) : done_(std::move(done)) {}

  void Finish(absl::StatusOr<RpcMessage> result) {
    RpcDone done;
    {
      std::lock_guard lock(mu_);
      done = std::exchange(done_, nullptr);
    }
    if (done != nullptr) done(std::move(result));
  }
  bool finished() const {
    std::lock_guard lock(mu_);
    return done_ == nullptr;
  }

 private:
  mutable std::mutex mu_;
  RpcDone done_;
};

class InProcessChannel final : public RpcChannel {
 public:
  explicit InProcessChannel(RpcHandler handler) : handler_(std::move(handler)) {}

  void Call(absl::string_view service, absl::string_view method, RpcMessage request,
            absl::Duration timeout, RpcDone done) override {
    auto call = std::make_shared<OnceDone>(std::move(done));
    handler_(service, method, std::move(request),
             [call](absl::StatusOr<RpcMessage> reply) { call->Finish(std::move(reply)); });
    if (call->finished()) return;
    timers_.After(timeout, [call](bool stopped) {
      call->Finish(stopped ? absl::CancelledError("the channel was closed")
                           : absl::DeadlineExceededError("no reply in time"));
    });
  }

 private:
  const RpcHandler handler_;
  TimerThread timers_;
};

}  // namespace

absl::StatusOr<RpcMessage> RpcChannel::CallAndWait(absl::string_view service,
                                                   absl::string_view method, RpcMessage request,
                                                   absl::Duration timeout) {
  std::mutex mu;
  std::condition_variable finished;
  std::optional<absl::StatusOr<RpcMessage>> result;
  Call(service, method, std::move(request), timeout, [&](absl::StatusOr<RpcMessage> reply) {
    // Notified under the lock: these variables are gone once the waiter sees it.
    std::lock_guard lock(mu);
    result = std::move(reply);
    finished.notify_one();
  });
  std::unique_lock lock(mu);
  finished.wait(lock, [&] { return result.has_value(); });
  return *std::move(result);
}

std::unique_ptr<RpcChannel> InProcessRpc(RpcHandler handler) {
  return std::make_unique<InProcessChannel>(std::move(handler));
}

}  // namespace starling
