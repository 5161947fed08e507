// Transport: call bytes → bytes, with an attachment for bulk data, a deadline
// and cancellation. Implementations: in-process, and Asio speaking brpc's
// baidu_std wire protocol, so that any brpc program can talk to ours.
//
// Control travels in `body` (a serialized proto); keys and rows travel in
// `attachment` as raw bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace starling {

struct RpcMessage {
  std::string body;
  std::string attachment;
};
using RpcDone = std::function<void(absl::StatusOr<RpcMessage>)>;

// A connection to one server. Thread-safe. Calls may be under way in any
// number; each calls `done` exactly once, from any thread: with the reply, the
// server's error, DeadlineExceeded, or Unavailable when the peer is gone. A
// channel reconnects by itself on the next call.
//
// Destroying a channel ends its calls with Cancelled; not from inside a `done`.
// A `done` must not wait for another call of the same channel.
class RpcChannel {
 public:
  virtual ~RpcChannel() = default;
  virtual void Call(absl::string_view service, absl::string_view method, RpcMessage request,
                    absl::Duration timeout, RpcDone done) = 0;
  // The same, waiting.
  absl::StatusOr<RpcMessage> CallAndWait(absl::string_view service, absl::string_view method,
                                         RpcMessage request, absl::Duration timeout);
};

// Answers one call: must call `reply` exactly once, now or later, on any thread.
// Runs on one of the server's threads, which serves nobody else meanwhile.
using RpcHandler = std::function<void(absl::string_view service, absl::string_view method,
                                      RpcMessage request, RpcDone reply)>;

class RpcServer {
 public:
  // Stops: handlers that run come to their end and are answered; no handler
  // runs after it returns. Not from inside a handler.
  virtual ~RpcServer() = default;
  virtual int port() const = 0;
};

struct RpcServerOptions {
  std::string address = "127.0.0.1:0";  // Port 0 picks a free one.
  int threads = 2;
  int64_t message_bytes_max = 1 << 30;  // A larger frame closes the connection.
};

absl::StatusOr<std::unique_ptr<RpcServer>> StartRpcServer(const RpcServerOptions& options,
                                                          RpcHandler handler);
// `address` is host:port. Connects on the first call.
std::unique_ptr<RpcChannel> ConnectRpc(const std::string& address);
// A channel whose server is `handler`, in this process, on the caller's thread.
std::unique_ptr<RpcChannel> InProcessRpc(RpcHandler handler);

}  // namespace starling
