// The serving node: KServe v2 (Open Inference Protocol) over HTTP.
//
//   GET  /v2/health/live, /v2/health/ready
//   GET  /v2, /v2/models/NAME, /v2/models/NAME/ready   (also /versions/V)
//   POST /v2/models/NAME/infer
//   GET  /metrics, /healthz, /readyz
//
// Requests and answers are described in serving/infer_request.h: an input
// tensor is a feature's column, a null is a missing value, a column left out is
// missing in every row; the output is `probability`, FP32, [n]. An error is
// {"error": "…"} with 400 (the request), 401 (the token), 404 (model, version
// or page), 405, 413 (the body's size) or 500. Only the current version is
// served. Health pages need no token.
//
// A publication root is watched: a new version is loaded aside, tried on, and
// swapped in between requests. No request fails for it; a version that cannot
// be loaded is reported and skipped, and the old one goes on answering.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace starling {

struct ServeOptions {
  std::string bundle;                 // A bundle, or a publication root to watch.
  std::string address = "127.0.0.1";  // Loopback unless a token is set.
  int port = 8080;                    // 0 picks a free one.
  int threads = 4;    // Requests scored at once; connections have threads of their own.
  std::string token;  // If set, requests need `Authorization: Bearer <token>`.
  int64_t request_bytes_max = 64 << 20;
  int rows_max = 65536;  // Rows in one request.
  double watch_s = 1;    // Between looks for a new version.
};

class HttpServer {
 public:
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const ServeOptions& options);
  virtual ~HttpServer() = default;  // Stops; requests under way are answered first.
  virtual int port() const = 0;
  virtual uint64_t version() const = 0;          // Being served.
  virtual const std::string& model() const = 0;  // Its name.
};

}  // namespace starling
