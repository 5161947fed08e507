// starling ps: one parameter server, holding its share of every table.
#include <gflags/gflags.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "ps/ps_server.h"
#include "tools/flags.h"
#include "tools/job.h"
#include "tools/verbs.h"

DEFINE_string(address, "127.0.0.1:0", "host:port to listen on; port 0 picks a free one");
DEFINE_int32(shard, 0, "which server this is, from 0");
DEFINE_int32(shards, 1, "how many servers there are");
DEFINE_string(scratch, "", "directory for rows that outgrow memory; default: a new one under /tmp");

namespace starling {
namespace {

absl::Status Run(const VerbCall&) {
  if (FLAGS_shards < 1 || FLAGS_shard < 0 || FLAGS_shard >= FLAGS_shards) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shard ", FLAGS_shard, " is not among 0..", FLAGS_shards - 1));
  }
  PsServerOptions options;
  options.address = FLAGS_address;
  options.shard = FLAGS_shard;
  options.shards = FLAGS_shards;
  options.scratch_dir =
      FLAGS_scratch.empty() ? absl::StrCat("/tmp/starling-ps.", getpid()) : FLAGS_scratch;
  ASSIGN_OR_RETURN(std::unique_ptr<PsServer> server, PsServer::Start(options));
  std::fprintf(stderr, "ps %d of %d on port %d\n", FLAGS_shard, FLAGS_shards, server->port());
  if (!FLAGS_port_file.empty())
    RETURN_IF_ERROR(WriteFileAtomically(FLAGS_port_file, absl::StrCat(server->port())));

  // A signal stops the server as the Stop call does.
  const std::atomic<bool>* stop = StopRequested();
  std::atomic<bool> ended{false};
  std::thread watcher([&] {
    while (!ended && !*stop) absl::SleepFor(absl::Milliseconds(50));
    if (*stop) server->Stop();
  });
  server->Wait();
  ended = true;
  watcher.join();
  return *stop ? absl::CancelledError("stopped by a signal") : absl::OkStatus();
}

}  // namespace

Verb PsVerb() {
  return {"ps",
          "Run a parameter server",
          "starling ps --shard I --shards N [--address HOST:PORT]",
          {"address", "shard", "shards", "scratch", "port_file"},
          Run};
}

}  // namespace starling
