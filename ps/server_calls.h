// ServerCalls: channels to all servers, with calls that are sent again while
// a server cannot be reached.
//
// Thread safety: any method, any thread. Destruction cancels what is under
// way; not from inside a `done`.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/transport.h"
#include "base/transport_timer.h"

namespace starling {

struct CallPolicy {
  absl::Duration timeout;    // Of one attempt.
  absl::Duration retry_for;  // Since the first attempt. 0: one attempt.
};

class ServerCalls {
 public:
  explicit ServerCalls(std::vector<std::string> addresses);
  ~ServerCalls();

  int servers() const { return static_cast<int>(channels_.size()); }

  // Calls a method of "starling.Ps". `build` makes the request of each
  // attempt. Unavailable and DeadlineExceeded are tried again; what `done`
  // gets, once, names the server if it is an error.
  void Call(int server, const std::string& method, const CallPolicy& policy,
            std::function<RpcMessage()> build, RpcDone done);

  // The same on every server at once; build(server). Waits for all.
  std::vector<absl::StatusOr<RpcMessage>> CallAll(const std::string& method,
                                                  const CallPolicy& policy,
                                                  const std::function<RpcMessage(int)>& build);

 private:
  struct Attempt;
  void Try(std::shared_ptr<Attempt> attempt);
  void Finish(std::shared_ptr<Attempt> attempt, absl::StatusOr<RpcMessage> reply);

  const std::vector<std::string> addresses_;
  TimerThread timers_;  // Outlives the channels, whose last calls may still use it.
  std::vector<std::unique_ptr<RpcChannel>> channels_;
};

}  // namespace starling
