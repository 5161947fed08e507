#include "serving/http_listener.h"

#include <httplib.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <deque>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "serving/infer_request.h"

namespace starling {
namespace {

// Set while a request is handled if what follows it on the connection cannot
// be read as a request. A connection stays on one thread.
thread_local bool close_after_reply = false;

bool WaitFor(int fd, int16_t events, int stop_fd, int seconds) {
  pollfd fds[2] = {{fd, events, 0}, {stop_fd, POLLIN, 0}};
  int n;
  do {
    n = ::poll(fds, stop_fd < 0 ? 1 : 2, seconds * 1000);
  } while (n < 0 && errno == EINTR);
  return n > 0 && fds[0].revents != 0;
}

// A socket with a buffer for reads, as httplib wants to see it.
class SocketStream : public httplib::Stream {
 public:
  SocketStream(int fd, int io_s_max) : fd_(fd), io_s_max_(io_s_max), buffer_(16384) {}

  bool Buffered() const { return begin_ < end_; }

  bool is_readable() const override { return Buffered() || WaitFor(fd_, POLLIN, -1, io_s_max_); }
  bool is_writable() const override { return WaitFor(fd_, POLLOUT, -1, io_s_max_); }

  ssize_t read(char* out, size_t size) override {
    if (!Buffered()) {
      if (!is_readable()) return -1;
      ssize_t n = ::recv(fd_, buffer_.data(), buffer_.size(), 0);
      if (n <= 0) return n;
      begin_ = 0;
      end_ = static_cast<size_t>(n);
    }
    size_t n = std::min(size, end_ - begin_);
    std::copy_n(buffer_.data() + begin_, n, out);
    begin_ += n;
    return static_cast<ssize_t>(n);
  }

  ssize_t write(const char* data, size_t size) override {
    if (!is_writable()) return -1;
    return ::send(fd_, data, size, MSG_NOSIGNAL);
  }

  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return fd_; }

  // A close with unread bytes resets the connection, and may overtake the
  // reply: reads on until the client has stopped sending, within bounds.
  void Linger() {
    ::shutdown(fd_, SHUT_WR);
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (std::chrono::steady_clock::now() < end && WaitFor(fd_, POLLIN, -1, 1) &&
           ::recv(fd_, buffer_.data(), buffer_.size(), 0) > 0) {
    }
  }

 private:
  const int fd_;
  const int io_s_max_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
};

// One thread a connection, made when needed and kept for the next.
class ConnectionThreads : public httplib::TaskQueue {
 public:
  explicit ConnectionThreads(size_t threads_max) : threads_max_(threads_max) {}

  // Blocks while all threads are taken: connections then wait in the kernel.
  void enqueue(std::function<void()> job) override {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(this, &ConnectionThreads::HasRoom));
    jobs_.push_back(std::move(job));
    if (idle_ < jobs_.size()) threads_.emplace_back([this] { Work(); });
  }

  void shutdown() override {
    std::vector<std::thread> threads;
    {
      absl::MutexLock lock(&mu_);
      stop_ = true;
      threads.swap(threads_);
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return idle_ > jobs_.size() || threads_.size() < threads_max_;
  }
  bool HasJobOrStop() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !jobs_.empty() || stop_; }

  void Work() {
    for (;;) {
      std::function<void()> job;
      {
        absl::MutexLock lock(&mu_);
        ++idle_;
        mu_.Await(absl::Condition(this, &ConnectionThreads::HasJobOrStop));
        --idle_;
        if (jobs_.empty()) return;
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      job();
    }
  }

  const size_t threads_max_;
  absl::Mutex mu_;
  size_t idle_ ABSL_GUARDED_BY(mu_) = 0;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
};

HttpRequest RequestOf(const httplib::Request& request) {
  return {request.method, request.path, request.get_header_value("Authorization"), ""};
}

bool HasBody(const httplib::Request& request) {
  std::string length = request.get_header_value("Content-Length");
  return (!length.empty() && length != "0") || request.has_header("Transfer-Encoding");
}

void Answer(const HttpReply& reply, httplib::Response& response) {
  response.status = reply.status;
  response.set_content(reply.body, reply.content_type);
}

class Listener : public HttpListener, private httplib::Server {
 public:
  Listener(const ListenOptions& options, HttpHandlers handlers);
  ~Listener() override;
  absl::Status Listen();
  int port() const override { return port_; }

 private:
  void TakeGet(const httplib::Request& request, httplib::Response& response);
  void TakePost(const httplib::Request& request, httplib::Response& response,
                const httplib::ContentReader& reader);
  bool process_and_close_socket(socket_t sock) override;

  const ListenOptions options_;
  const HttpHandlers handlers_;
  const int stop_fd_;  // Readable once stopping.
  std::atomic<bool> stopping_{false};
  int port_ = 0;
  std::thread thread_;
};

Listener::Listener(const ListenOptions& options, HttpHandlers handlers)
    : options_(options), handlers_(std::move(handlers)), stop_fd_(::eventfd(0, EFD_CLOEXEC)) {
  new_task_queue = [this] { return new ConnectionThreads(options_.connections_max); };
  // The library would also set SO_REUSEPORT: two servers could share a port unawares.
  set_socket_options([](socket_t sock) {
    int yes = 1;
    ::setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  set_tcp_nodelay(true);
  set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    HttpReply reply = handlers_.admit(RequestOf(request));
    if (reply.status == 200) return HandlerResponse::Unhandled;
    close_after_reply = HasBody(request);
    Answer(reply, response);
    return HandlerResponse::Handled;
  });
  // A client must not send its next request on a connection about to close.
  set_post_routing_handler([](const httplib::Request&, httplib::Response& response) {
    if (close_after_reply) response.set_header("Connection", "close");
  });
  Server::Get(".*", [this](const auto& request, auto& response) { TakeGet(request, response); });
  Server::Post(
      ".*", [this](const httplib::Request& request, httplib::Response& response,
                   const httplib::ContentReader& reader) { TakePost(request, response, reader); });
  set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (response.body.empty()) {
      close_after_reply = true;
      response.set_content(
          ErrorJson(response.status >= 500 ? "the server failed inside"
                                           : "the request is not HTTP that this server takes"),
          "application/json");
    }
  });
}

void Listener::TakeGet(const httplib::Request& request, httplib::Response& response) {
  close_after_reply = HasBody(request);
  Answer(handlers_.handle(RequestOf(request)), response);
}

void Listener::TakePost(const httplib::Request& request, httplib::Response& response,
                        const httplib::ContentReader& reader) {
  HttpRequest whole = RequestOf(request);
  bool too_large = false;
  if (!HasBody(request)) return Answer(handlers_.handle(whole), response);
  bool complete = !request.is_multipart_form_data() && reader([&](const char* data, size_t size) {
    too_large = static_cast<int64_t>(whole.body.size() + size) > options_.body_bytes_max;
    if (!too_large) whole.body.append(data, size);
    return !too_large;
  });
  if (complete) return Answer(handlers_.handle(whole), response);
  close_after_reply = true;
  std::string error =
      too_large ? absl::StrCat("the body is larger than ", options_.body_bytes_max, " bytes")
                : "the body is cut off, or not encoded as its headers say";
  Answer({too_large ? 413 : 400, "application/json", ErrorJson(error)}, response);
}

bool Listener::process_and_close_socket(socket_t sock) {
  SocketStream stream(sock, options_.io_s_max);
  int yes = 1;
  ::setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  bool open = true;
  close_after_reply = false;
  while (open && !close_after_reply &&
         (stream.Buffered() || WaitFor(sock, POLLIN, stop_fd_, options_.idle_s_max))) {
    bool last = stopping_.load(), closed = false;
    open = process_request(stream, last, closed, nullptr) && !closed && !last;
  }
  if (close_after_reply) stream.Linger();
  ::shutdown(sock, SHUT_RDWR);
  ::close(sock);
  return open;
}

absl::Status Listener::Listen() {
  port_ = options_.port == 0 ? bind_to_any_port(options_.address)
                             : (bind_to_port(options_.address, options_.port) ? options_.port : -1);
  if (port_ < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on ", options_.address, ":", options_.port,
                     ": the port is in use, not permitted, or the address is not of this machine"));
  }
  thread_ = std::thread([this] { listen_after_bind(); });
  while (!is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return absl::OkStatus();
}

Listener::~Listener() {
  stopping_ = true;
  uint64_t one = 1;
  [[maybe_unused]] ssize_t n = ::write(stop_fd_, &one, sizeof(one));
  if (thread_.joinable()) {
    stop();
    thread_.join();
  }
  ::close(stop_fd_);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Start(const ListenOptions& options,
                                                                  HttpHandlers handlers) {
  auto listener = std::make_unique<Listener>(options, std::move(handlers));
  if (absl::Status status = listener->Listen(); !status.ok()) return status;
  return listener;
}

}  // namespace starling
