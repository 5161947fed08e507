// HttpListener: cpp-httplib's HTTP parser behind connection handling of our
// own. The library keeps a pool thread busy polling each idle connection, stops
// only after they time out, and leaves an unread body in the connection; here
//   - a connection has a thread, up to connections_max; further ones wait unaccepted;
//   - an idle connection sleeps in poll, and a stop wakes it;
//   - a body beyond the limit, compressed or not, is 413 and the connection is
//     closed once the answer had time to arrive.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace starling {

struct HttpRequest {
  std::string method;
  std::string path;
  std::string authorization;  // The header, or "".
  std::string body;           // Of a POST.
};
struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
};

struct ListenOptions {
  std::string address;
  int port = 0;
  int connections_max = 512;
  int64_t body_bytes_max = 64 << 20;
  int idle_s_max = 60;  // A connection without a request for so long is closed.
  int io_s_max = 10;    // So long may a client take over a piece of a request or answer.
};

// Both are called from many threads at once.
struct HttpHandlers {
  // Before the body is read. A status other than 200 ends the request.
  std::function<HttpReply(const HttpRequest&)> admit;
  std::function<HttpReply(const HttpRequest&)> handle;
};

class HttpListener {
 public:
  // InvalidArgument if the address cannot be listened on, for whatever reason.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Start(const ListenOptions& options,
                                                             HttpHandlers handlers);
  virtual ~HttpListener() = default;  // Stops; requests under way are answered first.
  virtual int port() const = 0;
};

}  // namespace starling
