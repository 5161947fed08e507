#include "serving/http_server.h"

#include <arpa/inet.h>

#include <chrono>
#include <cmath>
#include <semaphore>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/metrics.h"
#include "base/status.h"
#include "base/sync_point.h"
#include "serving/http_listener.h"
#include "serving/infer_request.h"
#include "serving/model_host.h"

namespace starling {
namespace {

bool IsLoopback(const std::string& address) {
  in_addr v4;
  if (::inet_pton(AF_INET, address.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  return address == "::1" || address == "localhost";
}

// Takes as long whichever byte differs.
bool SameSecret(absl::string_view a, absl::string_view b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

HttpReply Error(int status, absl::string_view message) {
  return {status, "application/json", ErrorJson(message)};
}
HttpReply Ok(std::string json) { return {200, "application/json", std::move(json)}; }

bool IsHealth(absl::string_view path) {
  return path == "/healthz" || path == "/readyz" || path == "/v2/health/live" ||
         path == "/v2/health/ready";
}

class Node : public HttpServer {
 public:
  Node(const ServeOptions& options, std::unique_ptr<ModelHost> host)
      : options_(options),
        host_(std::move(host)),
        model_(host_->current()->bundle().spec().info.model()),
        computing_(options.threads) {}

  absl::Status Listen() {
    ListenOptions listen{.address = options_.address,
                         .port = options_.port,
                         .body_bytes_max = options_.request_bytes_max};
    HttpHandlers handlers{.admit = [this](const HttpRequest& r) { return Admit(r); },
                          .handle = [this](const HttpRequest& r) { return Handle(r); }};
    ASSIGN_OR_RETURN(listener_, HttpListener::Start(listen, std::move(handlers)));
    return absl::OkStatus();
  }

  int port() const override { return listener_->port(); }
  uint64_t version() const override { return host_->current()->bundle().spec().info.version(); }

  const std::string& model() const override { return model_; }

 private:
  // Health is open to probes; all else needs the token, if there is one.
  HttpReply Admit(const HttpRequest& request) const {
    if (request.method != "GET" && request.method != "HEAD" && request.method != "POST") {
      return Error(405, absl::StrCat("method ", request.method, " is not taken"));
    }
    if (!options_.token.empty() && !IsHealth(request.path) &&
        !SameSecret(request.authorization, absl::StrCat("Bearer ", options_.token))) {
      CountRequest(401);
      return Error(401, "the header `Authorization: Bearer <token>` is missing or wrong");
    }
    return {};
  }

  HttpReply Handle(const HttpRequest& request) {
    if (request.path == "/metrics") return {200, "text/plain; version=0.0.4", MetricsText()};
    if (request.path == "/healthz" || request.path == "/v2/health/live") {
      return Ok("{\"live\":true}");
    }
    if (request.path == "/readyz" || request.path == "/v2/health/ready") {
      return Ok("{\"ready\":true}");
    }
    if (request.path == "/v2") {
      return Ok("{\"name\":\"starling\",\"version\":\"0.1.0\",\"extensions\":[]}");
    }
    if (absl::StartsWith(request.path, "/v2/models/")) return HandleModel(request);
    return Error(404, absl::StrCat("no such page: ", request.path));
  }

  // /v2/models/NAME[/versions/V][/ready | /infer]
  HttpReply HandleModel(const HttpRequest& request) {
    std::shared_ptr<const Predictor> model = host_->current();
    const BundleInfo& info = model->bundle().spec().info;
    std::vector<std::string> parts = absl::StrSplit(request.path.substr(11), '/');
    if (parts[0] != info.model()) {
      return Error(
          404, absl::StrCat("no model \"", parts[0], "\"; \"", info.model(), "\" is served here"));
    }
    parts.erase(parts.begin());
    if (parts.size() >= 2 && parts[0] == "versions") {
      if (parts[1] != absl::StrCat(info.version())) {
        return Error(404,
                     absl::StrCat("version ", parts[1], " is not served; ", info.version(), " is"));
      }
      parts.erase(parts.begin(), parts.begin() + 2);
    }
    std::string action = absl::StrJoin(parts, "/");
    if (action.empty()) return Ok(ModelMetadataJson(model->bundle().spec(), model->outputs()));
    if (action == "ready") return Ok("{\"ready\":true}");
    if (action != "infer") return Error(404, absl::StrCat("no such page: ", request.path));
    if (request.method != "POST") return Error(405, "infer takes POST");
    return TimedInfer(*model, request.body);
  }

  HttpReply TimedInfer(const Predictor& model, const std::string& body) {
    auto start = std::chrono::steady_clock::now();
    computing_.acquire();
    HttpReply reply = Infer(model, body);
    computing_.release();
    latency_.Observe(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    CountRequest(reply.status);
    return reply;
  }

  HttpReply Infer(const Predictor& model, const std::string& body) {
    const BundleSpec& spec = model.bundle().spec();
    auto request = ParseInferRequest(body, spec.features, model.outputs(), options_.rows_max);
    if (!request.ok()) return Error(400, std::string(request.status().message()));
    auto scores = model.Predict(request->columns, nullptr);
    STARLING_SYNC_POINT("serving:scored");
    if (!scores.ok()) {
      // What no row of a request can satisfy is the request's fault too.
      bool theirs =
          absl::IsInvalidArgument(scores.status()) || absl::IsFailedPrecondition(scores.status());
      return Error(theirs ? 400 : 500, std::string(scores.status().message()));
    }
    for (size_t i = 0; i < scores->size(); ++i) {
      if (!std::isfinite((*scores)[i])) {
        return Error(500,
                     absl::StrCat("row ", i / model.outputs().size(), ": the score is not finite"));
      }
    }
    rows_.Add(static_cast<double>(request->columns.rows));
    return Ok(InferResponseJson(*request, spec.info, model.outputs(), *scores));
  }

  static void CountRequest(int status) {
    GetCounter("starling_serving_requests_total", "Inference requests, by HTTP status.",
               {{"code", std::to_string(status)}})
        .Add(1);
    if (status >= 400) {
      GetCounter("starling_serving_failures_total", "Inference requests answered with an error.")
          .Add(1);
    }
  }

  const ServeOptions options_;
  const std::unique_ptr<ModelHost> host_;
  const std::string model_;              // Every version's: the host sees to it.
  std::counting_semaphore<> computing_;  // Requests parsed and scored at once.
  Histogram& latency_ = GetHistogram(
      "starling_serving_request_seconds", "From the whole request to the whole answer.",
      {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5});
  Counter& rows_ = GetCounter("starling_serving_rows_total", "Rows scored.");
  std::unique_ptr<HttpListener> listener_;  // Last: it stops before the rest goes.
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const ServeOptions& options) {
  if (options.threads < 1) return absl::InvalidArgumentError("threads must be at least 1");
  if (options.port < 0 || options.port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("port ", options.port, " is outside 0..65535"));
  }
  if (options.token.empty() && !IsLoopback(options.address)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "address ", options.address, " can be reached from outside: it needs a token"));
  }
  ASSIGN_OR_RETURN(auto host, ModelHost::Open(options.bundle, options.watch_s));
  auto node = std::make_unique<Node>(options, std::move(host));
  RETURN_IF_ERROR(node->Listen());
  return node;
}

}  // namespace starling
