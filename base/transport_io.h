// The part of the default transport that touches sockets: connections that
// carry baidu_std frames, on Boost.Asio. Channel and server are built on it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/transport_frame.h"

namespace starling {

// One connection. Its callbacks run on the loop's threads, never two at once.
// Thread safety: any method, any thread, but Start and Hold as they say.
class FrameStream {
 public:
  using OnFrame = std::function<void(RpcFrame)>;
  using OnClose = std::function<void(absl::Status)>;

  virtual ~FrameStream() = default;
  // Once, before anything else. on_close comes exactly once, after the last
  // on_frame; until then the stream keeps itself alive.
  virtual void Start(OnFrame on_frame, OnClose on_close) = 0;
  // Frames go out in the order sent. After the stream closed they are dropped:
  // on_close has told whoever waits. Releases `released` bytes of Hold.
  virtual void Send(RpcFrame frame, int64_t released = 0) = 0;
  // Inside on_frame: while more than the largest frame's size is held, nothing
  // is read, so that a peer cannot fill our memory with requests.
  virtual void Hold(int64_t bytes) = 0;
  virtual void Close(absl::Status why) = 0;
  virtual void CloseWhenSent() = 0;  // Takes no more frames.
};

// Stops listening when destroyed; on_accept may still be running then.
class IoListener {
 public:
  virtual ~IoListener() = default;
  virtual int port() const = 0;
};

// Destroyed: the timer does not fire, unless it is firing already.
class IoTimer {
 public:
  virtual ~IoTimer() = default;
};

// Threads that run everything. Thread safety: any method, any thread.
class IoLoop {
 public:
  static std::unique_ptr<IoLoop> Start(int threads);
  // Runs what was posted, then joins its threads; not from one of them.
  // REQUIRES: listeners are gone, and streams closed or told to.
  virtual ~IoLoop() = default;

  virtual void Post(std::function<void()> fn) = 0;
  virtual std::unique_ptr<IoTimer> After(absl::Duration delay, std::function<void()> fn) = 0;

  using OnStream = std::function<void(absl::StatusOr<std::shared_ptr<FrameStream>>)>;
  // `address` is host:port. The streams refuse frames above frame_bytes_max.
  virtual void Connect(const std::string& address, int64_t frame_bytes_max, OnStream done) = 0;
  virtual absl::StatusOr<std::unique_ptr<IoListener>> Listen(
      const std::string& address, int64_t frame_bytes_max,
      std::function<void(std::shared_ptr<FrameStream>)> on_accept) = 0;
};

}  // namespace starling
