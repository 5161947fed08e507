#include "ps/server_calls.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace starling {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(20);
constexpr absl::Duration kLongestPause = absl::Seconds(1);

bool WorthRetrying(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

struct ServerCalls::Attempt {
  int server;
  std::string method;
  CallPolicy policy;
  std::function<RpcMessage()> build;
  RpcDone done;
  absl::Time until;
  absl::Duration pause = kFirstPause;
};

ServerCalls::ServerCalls(std::vector<std::string> addresses) : addresses_(std::move(addresses)) {
  for (const std::string& address : addresses_) channels_.push_back(ConnectRpc(address));
}

ServerCalls::~ServerCalls() { timers_.Stop(); }

void ServerCalls::Call(int server, const std::string& method, const CallPolicy& policy,
                       std::function<RpcMessage()> build, RpcDone done) {
  Try(std::make_shared<Attempt>(Attempt{server, method, policy, std::move(build), std::move(done),
                                        absl::Now() + policy.retry_for}));
}

void ServerCalls::Try(std::shared_ptr<Attempt> attempt) {
  channels_[attempt->server]->Call(
      "starling.Ps", attempt->method, attempt->build(), attempt->policy.timeout,
      [this, attempt](absl::StatusOr<RpcMessage> reply) { Finish(attempt, std::move(reply)); });
}

void ServerCalls::Finish(std::shared_ptr<Attempt> attempt, absl::StatusOr<RpcMessage> reply) {
  if (WorthRetrying(reply.status()) && absl::Now() + attempt->pause < attempt->until) {
    absl::Duration pause = attempt->pause;
    attempt->pause = std::min(2 * pause, kLongestPause);
    return timers_.After(pause, [this, attempt](bool stopped) {
      if (!stopped) return Try(attempt);
      attempt->done(absl::CancelledError("the client was closed"));
    });
  }
  if (!reply.ok()) {
    reply = Annotate(reply.status(),
                     absl::StrCat("server ", attempt->server, " at ", addresses_[attempt->server]));
  }
  attempt->done(std::move(reply));
}

std::vector<absl::StatusOr<RpcMessage>> ServerCalls::CallAll(
    const std::string& method, const CallPolicy& policy,
    const std::function<RpcMessage(int)>& build) {
  std::mutex mu;
  std::condition_variable finished;
  int left = servers();
  std::vector<absl::StatusOr<RpcMessage>> replies(left, absl::UnknownError("no reply"));
  for (int s = 0; s < servers(); ++s) {
    Call(
        s, method, policy, [&build, s] { return build(s); },
        [&, s](absl::StatusOr<RpcMessage> reply) {
          std::lock_guard lock(mu);
          replies[s] = std::move(reply);
          if (--left == 0) finished.notify_one();
        });
  }
  std::unique_lock lock(mu);
  finished.wait(lock, [&] { return left == 0; });
  return replies;
}

}  // namespace starling
