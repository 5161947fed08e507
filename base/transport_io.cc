#include "base/transport_io.h"

#include <boost/asio.hpp>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/metrics.h"
#include "base/status.h"
#include "base/transport_timer.h"

namespace starling {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr size_t kFramesAWrite = 16;
constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);

absl::Status SocketError(absl::string_view what, const ErrorCode& error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", error.message()));
}

absl::Status ParseAddress(const std::string& address, std::string* host, int* port) {
  size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), port) || *port < 0 || *port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("\"", address, "\" is not host:port"));
  }
  *host = address.substr(0, colon);
  return absl::OkStatus();
}

// The socket, and what is marked so, is touched on the socket's strand only.
class Stream final : public FrameStream, public std::enable_shared_from_this<Stream> {
 public:
  // `io` is kept alive, since a late reply may be the last to hold the stream.
  Stream(std::shared_ptr<asio::io_context> io, tcp::socket socket, int64_t frame_bytes_max)
      : io_(std::move(io)),
        socket_(std::move(socket)),
        held_bytes_max_(frame_bytes_max),
        reader_(frame_bytes_max) {}

  void Start(OnFrame on_frame, OnClose on_close) override {
    ErrorCode ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    on_frame_ = std::move(on_frame);
    on_close_ = std::move(on_close);
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Read(); });
  }

  void Send(RpcFrame frame, int64_t released) override {
    absl::StatusOr<std::string> head = EncodeFrameHead(frame);
    if (!head.ok()) return Close(head.status());
    std::lock_guard lock(mu_);
    held_bytes_ -= released;
    if (closed_ || closing_) return;
    queue_.push_back({*std::move(head), std::move(frame.body), std::move(frame.attachment)});
    if (!std::exchange(sending_, true)) PostLocked([](Stream& self) { self.Write(); });
  }

  void Hold(int64_t bytes) override {
    std::lock_guard lock(mu_);
    held_bytes_ += bytes;
  }

  void Close(absl::Status why) override {
    std::lock_guard lock(mu_);
    if (!closed_) PostLocked([why = std::move(why)](Stream& self) { self.Finish(why); });
  }

  void CloseWhenSent() override {
    std::lock_guard lock(mu_);
    if (closed_ || std::exchange(closing_, true) || sending_) return;
    PostLocked([](Stream& self) { self.FinishSent(); });
  }

 private:
  struct Outgoing {
    std::string head, body, attachment;
  };

  // Only while the stream is open: an io_context whose threads are gone must
  // not be left with work that keeps it alive.
  template <typename Fn>
  void PostLocked(Fn fn) {
    asio::post(socket_.get_executor(),
               [self = shared_from_this(), fn = std::move(fn)] { fn(*self); });
  }

  void Read() {
    if (on_close_ == nullptr) return;
    {
      std::lock_guard lock(mu_);
      paused_ = held_bytes_ > held_bytes_max_;
      if (paused_) return;
    }
    std::span<char> space = reader_.Space();
    socket_.async_read_some(asio::buffer(space.data(), space.size()),
                            [self = shared_from_this()](const ErrorCode& error, size_t n) {
                              self->Received(error, n);
                            });
  }

  void Received(const ErrorCode& error, size_t n) {
    if (error) return Finish(SocketError("connection lost", error));
    absl::Status status = reader_.Advance(n, [this](RpcFrame frame) {
      if (on_frame_ != nullptr) on_frame_(std::move(frame));
    });
    if (status.ok()) return Read();
    static Counter& bad = GetCounter("starling_rpc_bad_frames_total",
                                     "Connections closed for malformed or oversize frames.");
    bad.Add(1);
    Finish(absl::UnavailableError(absl::StrCat("connection closed: ", status.message())));
  }

  // Sends what is queued, many frames by one call, until the queue is empty.
  void Write() {
    bool resume = false;
    {
      std::lock_guard lock(mu_);
      writing_.clear();
      while (!queue_.empty() && writing_.size() < kFramesAWrite) {
        writing_.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
      sending_ = !writing_.empty();
      if (!sending_ && closing_) PostLocked([](Stream& self) { self.FinishSent(); });
      resume = paused_ && held_bytes_ <= held_bytes_max_;
    }
    if (resume) Read();
    if (writing_.empty() || on_close_ == nullptr) return;
    std::vector<asio::const_buffer> buffers;
    for (const Outgoing& out : writing_) {
      for (const std::string* part : {&out.head, &out.body, &out.attachment}) {
        if (!part->empty()) buffers.push_back(asio::buffer(*part));
      }
    }
    asio::async_write(socket_, buffers,
                      [self = shared_from_this()](const ErrorCode& error, size_t) {
                        if (error) return self->Finish(SocketError("connection lost", error));
                        self->Write();
                      });
  }

  void FinishSent() { Finish(absl::UnavailableError("the server stopped")); }

  void Finish(const absl::Status& why) {
    OnClose on_close = std::exchange(on_close_, nullptr);
    if (on_close == nullptr) return;
    on_frame_ = nullptr;
    {
      std::lock_guard lock(mu_);
      closed_ = true;
      queue_.clear();
    }
    ErrorCode ignored;
    socket_.shutdown(tcp::socket::shutdown_both, ignored);
    socket_.close(ignored);
    on_close(why);
  }

  const std::shared_ptr<asio::io_context> io_;
  tcp::socket socket_;  // On the strand, as the next four.
  const int64_t held_bytes_max_;
  FrameReader reader_;
  OnFrame on_frame_;
  OnClose on_close_;  // Null: closed, or not started.
  std::vector<Outgoing> writing_;

  std::mutex mu_;  // Guards all below.
  std::deque<Outgoing> queue_;
  int64_t held_bytes_ = 0;
  bool sending_ = false;  // A Write is posted or under way.
  bool paused_ = false;   // Reading waits for bytes to be released.
  bool closing_ = false;
  bool closed_ = false;
};

class Listener final : public IoListener {
 public:
  using OnAccept = std::function<void(std::shared_ptr<FrameStream>)>;

  static absl::StatusOr<std::unique_ptr<IoListener>> Open(std::shared_ptr<asio::io_context> io,
                                                          const std::string& address,
                                                          int64_t frame_bytes_max,
                                                          OnAccept on_accept) {
    std::string host;
    int port = 0;
    RETURN_IF_ERROR(ParseAddress(address, &host, &port));
    ErrorCode error;
    tcp::resolver resolver(*io);
    auto found = resolver.resolve(host, absl::StrCat(port), tcp::resolver::passive, error);
    if (error) return absl::InvalidArgumentError(absl::StrCat(address, ": ", error.message()));
    auto state = std::make_shared<State>(io, frame_bytes_max, std::move(on_accept));
    tcp::endpoint endpoint = *found.begin();
    if (!state->acceptor.open(endpoint.protocol(), error) &&
        !state->acceptor.set_option(tcp::acceptor::reuse_address(true), error) &&
        !state->acceptor.bind(endpoint, error)) {
      state->acceptor.listen(asio::socket_base::max_listen_connections, error);
    }
    if (error) return SocketError(absl::StrCat("cannot listen on ", address), error);
    int bound = state->acceptor.local_endpoint().port();
    asio::post(state->acceptor.get_executor(), [state] { Accept(state); });
    return std::make_unique<Listener>(std::move(state), bound);
  }

  struct State {
    State(std::shared_ptr<asio::io_context> io, int64_t frame_bytes_max, OnAccept on_accept)
        : io(std::move(io)),
          frame_bytes_max(frame_bytes_max),
          on_accept(std::move(on_accept)),
          acceptor(asio::make_strand(*this->io)),
          pause(acceptor.get_executor()) {}
    const std::shared_ptr<asio::io_context> io;
    const int64_t frame_bytes_max;
    const OnAccept on_accept;
    tcp::acceptor acceptor;    // On its strand.
    asio::steady_timer pause;  // After an error such as too many open files.
  };

  Listener(std::shared_ptr<State> state, int port) : state_(std::move(state)), port_(port) {}
  ~Listener() override {
    asio::post(state_->acceptor.get_executor(), [state = state_] {
      ErrorCode ignored;
      state->acceptor.close(ignored);
      state->pause.cancel();
    });
  }
  int port() const override { return port_; }

 private:
  static void Accept(const std::shared_ptr<State>& state) {
    if (!state->acceptor.is_open()) return;
    state->acceptor.async_accept(
        asio::any_io_executor(asio::make_strand(*state->io)),
        [state](const ErrorCode& error, tcp::socket socket) {
          if (!state->acceptor.is_open()) return;
          if (!error) {
            state->on_accept(
                std::make_shared<Stream>(state->io, std::move(socket), state->frame_bytes_max));
            return Accept(state);
          }
          state->pause.expires_after(ToChronoBounded(kAcceptPause));
          state->pause.async_wait([state](const ErrorCode&) { Accept(state); });
        });
  }

  const std::shared_ptr<State> state_;
  const int port_;
};

class Timer final : public IoTimer {
 public:
  Timer(asio::io_context& io, absl::Duration delay, std::function<void()> fn)
      : timer_(io, ToChronoBounded(delay)) {
    timer_.async_wait([fn = std::move(fn)](const ErrorCode& error) {
      if (!error) fn();
    });
  }

 private:
  asio::steady_timer timer_;
};

class Loop final : public IoLoop {
 public:
  explicit Loop(int threads)
      : io_(std::make_shared<asio::io_context>(threads)), work_(asio::make_work_guard(*io_)) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([io = io_] { io->run(); });
  }
  ~Loop() override {
    {
      std::lock_guard lock(mu_);
      for (const auto& socket : connecting_) {
        asio::post(socket->get_executor(), [socket] {
          ErrorCode ignored;
          socket->close(ignored);
        });
      }
    }
    work_.reset();
    for (std::thread& thread : threads_) thread.join();
  }

  void Post(std::function<void()> fn) override { asio::post(*io_, std::move(fn)); }

  std::unique_ptr<IoTimer> After(absl::Duration delay, std::function<void()> fn) override {
    return std::make_unique<Timer>(*io_, delay, std::move(fn));
  }

  void Connect(const std::string& address, int64_t frame_bytes_max, OnStream done) override {
    std::string host;
    int port = 0;
    if (auto s = ParseAddress(address, &host, &port); !s.ok()) return done(s);
    auto resolver = std::make_shared<tcp::resolver>(*io_);
    auto socket = std::make_shared<tcp::socket>(asio::make_strand(*io_));
    {
      std::lock_guard lock(mu_);
      connecting_.insert(socket);
    }
    auto finish = [this, io = io_, address, frame_bytes_max, done = std::move(done), socket](
                      const ErrorCode& error, const tcp::endpoint&) {
      {
        std::lock_guard lock(mu_);
        connecting_.erase(socket);
      }
      if (error) return done(SocketError(absl::StrCat("cannot connect to ", address), error));
      done(std::make_shared<Stream>(io, std::move(*socket), frame_bytes_max));
    };
    resolver->async_resolve(
        host, absl::StrCat(port),
        [resolver, socket, finish = std::move(finish)](const ErrorCode& error, auto endpoints) {
          if (error) return finish(error, {});
          asio::async_connect(*socket, endpoints, finish);
        });
  }

  absl::StatusOr<std::unique_ptr<IoListener>> Listen(const std::string& address,
                                                     int64_t frame_bytes_max,
                                                     Listener::OnAccept on_accept) override {
    return Listener::Open(io_, address, frame_bytes_max, std::move(on_accept));
  }

 private:
  const std::shared_ptr<asio::io_context> io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::mutex mu_;
  std::set<std::shared_ptr<tcp::socket>> connecting_;  // Guarded by mu_.
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<IoLoop> IoLoop::Start(int threads) { return std::make_unique<Loop>(threads); }

}  // namespace starling
