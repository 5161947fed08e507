// starling serve: answers inference requests from a bundle.
#include <gflags/gflags.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "absl/strings/ascii.h"
#include "base/file.h"
#include "base/status.h"
#include "serving/bundle.h"
#include "serving/http_server.h"
#include "tools/flags.h"
#include "tools/job.h"
#include "tools/verbs.h"

DEFINE_string(host, "127.0.0.1", "address to listen on; any but loopback needs --token_file");
DEFINE_int32(port, 8080, "port to listen on; 0 picks a free one");
DEFINE_string(token_file, "", "file with the token that clients must send");
DEFINE_double(watch_s, 1, "seconds between looks for a new version in a publication root");

namespace starling {
namespace {

absl::StatusOr<ServeOptions> OptionsOfFlags() {
  if (FLAGS_bundle.empty()) {
    return absl::InvalidArgumentError("--bundle is missing: which model to serve?");
  }
  if (!(FLAGS_watch_s > 0)) return absl::InvalidArgumentError("--watch_s must be above 0");
  ServeOptions options{.bundle = FLAGS_bundle, .address = FLAGS_host, .port = FLAGS_port};
  options.threads =
      FLAGS_threads > 0 ? FLAGS_threads : static_cast<int>(std::thread::hardware_concurrency());
  options.watch_s = FLAGS_watch_s;
  if (!FLAGS_token_file.empty()) {
    ASSIGN_OR_RETURN(options.token, ReadFile(FLAGS_token_file));
    absl::StripAsciiWhitespace(&options.token);
    if (options.token.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(FLAGS_token_file, ": holds no token"));
    }
  }
  return options;
}

absl::Status Run(const VerbCall& call) {
  if (!call.args.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("what is \"", call.args[0], "\"?"));
  }
  ASSIGN_OR_RETURN(ServeOptions options, OptionsOfFlags());
  const std::atomic<bool>* stop = StopRequested();
  ASSIGN_OR_RETURN(std::unique_ptr<HttpServer> server, HttpServer::Start(options));
  if (!FLAGS_port_file.empty()) {
    RETURN_IF_ERROR(WriteFileAtomically(FLAGS_port_file, absl::StrCat(server->port(), "\n")));
  }
  bool v6 = options.address.find(':') != std::string::npos;
  std::fprintf(stderr, "serving %s version %llu on http://%s%s%s:%d\n", server->model().c_str(),
               static_cast<unsigned long long>(server->version()), v6 ? "[" : "",
               options.address.c_str(), v6 ? "]" : "", server->port());
  while (!stop->load()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::fprintf(stderr, "stopping: requests under way are answered first\n");
  return absl::OkStatus();
}

}  // namespace

Verb ServeVerb() {
  return {"serve",
          "Answer inference requests (KServe v2 over HTTP) from a bundle",
          "starling serve --bundle DIR [--port P] [--host ADDRESS --token_file FILE] [--threads N] "
          "[--watch_s S] [--port_file FILE]\n\nA publication root is watched for new versions. "
          "SIGTERM and SIGINT end it with exit code 0,\nonce the requests under way are answered.",
          {"bundle", "port", "host", "token_file", "threads", "watch_s", "port_file"},
          Run};
}

}  // namespace starling
