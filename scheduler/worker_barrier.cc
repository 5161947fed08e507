#include "scheduler/worker_barrier.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "base/sync_point.h"

namespace starling {
namespace {

constexpr char kService[] = "starling.Job";
constexpr absl::Duration kTimeout = absl::Seconds(30);
constexpr absl::Duration kPause = absl::Milliseconds(10);       // Between two reports.
constexpr absl::Duration kPauseAtRest = absl::Milliseconds(1);  // While training stands still.

template <typename Request>
absl::StatusOr<Request> Parse(const RpcMessage& message, size_t workers) {
  Request request;
  if (!request.ParseFromString(message.body))
    return absl::InvalidArgumentError("the request cannot be read");
  if (request.worker() < 0 || static_cast<size_t>(request.worker()) >= workers) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no worker ", request.worker(), " of ", workers));
  }
  return request;
}

}  // namespace

// ---- The launcher's side ----

absl::StatusOr<std::unique_ptr<WorkerBarrier>> WorkerBarrier::Start(std::vector<WorkerState> from) {
  std::unique_ptr<WorkerBarrier> barrier(new WorkerBarrier(std::move(from)));
  WorkerBarrier* b = barrier.get();
  ASSIGN_OR_RETURN(
      b->server_, StartRpcServer({}, [b](absl::string_view service, absl::string_view method,
                                         const RpcMessage& request, const RpcDone& reply) {
        if (service != kService)
          return reply(absl::UnimplementedError(absl::StrCat("there is no service ", service)));
        reply(b->Handle(method, request));
      }));
  return barrier;
}

std::string WorkerBarrier::address() const { return absl::StrCat("127.0.0.1:", server_->port()); }

absl::StatusOr<RpcMessage> WorkerBarrier::Handle(absl::string_view method,
                                                 const RpcMessage& message) {
  size_t workers = 0;
  {
    absl::MutexLock lock(&mu_);
    workers = states_.size();
  }
  if (method == "Join") {
    ASSIGN_OR_RETURN(JoinRequest request, Parse<JoinRequest>(message, workers));
    return Join(request);
  }
  if (method == "Report") {
    ASSIGN_OR_RETURN(ReportRequest request, Parse<ReportRequest>(message, workers));
    return Report(request);
  }
  return absl::UnimplementedError(absl::StrCat(kService, " has no method ", method));
}

absl::StatusOr<RpcMessage> WorkerBarrier::Join(const JoinRequest& request) {
  JoinReply reply;
  {
    absl::MutexLock lock(&mu_);
    *reply.mutable_from() = states_[request.worker()];
  }
  STARLING_SYNC_POINT("launch:lease");
  return RpcMessage{reply.SerializeAsString(), ""};
}

absl::StatusOr<RpcMessage> WorkerBarrier::Report(const ReportRequest& request) {
  ReportReply reply;
  absl::MutexLock lock(&mu_);
  states_[request.worker()] = request.state();
  at_rest_[request.worker()] = request.at_rest();
  reply.set_hold(holding_ ? cuts_ : 0);
  return RpcMessage{reply.SerializeAsString(), ""};
}

void WorkerBarrier::Hold() {
  absl::MutexLock lock(&mu_);
  if (!holding_) ++cuts_;
  holding_ = true;
}

bool WorkerBarrier::holding() const {
  absl::MutexLock lock(&mu_);
  return holding_;
}

bool WorkerBarrier::AtRest() const {
  absl::MutexLock lock(&mu_);
  return holding_ && std::all_of(at_rest_.begin(), at_rest_.end(),
                                 [this](int64_t cut) { return cut == cuts_ || cut == -1; });
}

void WorkerBarrier::Release() {
  absl::MutexLock lock(&mu_);
  holding_ = false;
}

std::vector<WorkerState> WorkerBarrier::states() const {
  absl::MutexLock lock(&mu_);
  return states_;
}

// ---- A worker's side ----

BarrierClient::BarrierClient(const std::string& address, int worker)
    : worker_(worker), channel_(address.empty() ? nullptr : ConnectRpc(address)) {}

absl::StatusOr<std::unique_ptr<BarrierClient>> BarrierClient::Join(const std::string& address,
                                                                   int worker) {
  std::unique_ptr<BarrierClient> client(new BarrierClient(address, worker));
  if (client->channel_ == nullptr) return client;
  JoinRequest request;
  request.set_worker(worker);
  ASSIGN_OR_RETURN(
      RpcMessage message,
      client->channel_->CallAndWait(kService, "Join", {request.SerializeAsString(), ""}, kTimeout));
  JoinReply reply;
  if (!reply.ParseFromString(message.body))
    return absl::InternalError("the launcher's reply to Join cannot be read");
  client->from_ = reply.from();
  client->Report(reply.from());
  client->thread_ = std::thread([c = client.get()] { c->Work(); });
  return client;
}

BarrierClient::~BarrierClient() {
  {
    absl::MutexLock lock(&mu_);
    stop_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void BarrierClient::Report(const WorkerState& state) {
  absl::MutexLock lock(&mu_);
  state_ = state;
}

void BarrierClient::Work() {
  for (bool more = true; more;) {
    absl::Status status = Send();
    absl::MutexLock lock(&mu_);
    if (!status.ok()) {
      error_ = Annotate(status, "the launcher cannot be reached");
      hold_ = -1;
    }
    auto stopped = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return stop_; };
    mu_.AwaitWithTimeout(absl::Condition(&stopped), at_rest_ == 0 ? kPause : kPauseAtRest);
    more = !stop_ && error_.ok();
  }
}

absl::Status BarrierClient::Send() {
  ReportRequest request;
  request.set_worker(worker_);
  {
    absl::MutexLock lock(&mu_);
    *request.mutable_state() = state_;
    request.set_at_rest(at_rest_);
  }
  ASSIGN_OR_RETURN(
      RpcMessage message,
      channel_->CallAndWait(kService, "Report", {request.SerializeAsString(), ""}, kTimeout));
  ReportReply reply;
  if (!reply.ParseFromString(message.body))
    return absl::InternalError("the reply to Report cannot be read");
  absl::MutexLock lock(&mu_);
  hold_ = reply.hold();
  if (request.at_rest() == -1) done_known_ = true;
  if (at_rest_ > 0 && reply.hold() != at_rest_) at_rest_ = 0;  // The cut was taken.
  return absl::OkStatus();
}

absl::Status BarrierClient::Rest() {
  absl::MutexLock lock(&mu_);
  if (!error_.ok() || hold_ <= 0) return error_;
  at_rest_ = hold_;
  STARLING_SYNC_POINT("worker:at_rest");
  auto released = [this]()
                      ABSL_SHARED_LOCKS_REQUIRED(mu_) { return at_rest_ == 0 || !error_.ok(); };
  mu_.Await(absl::Condition(&released));
  return error_;
}

absl::Status BarrierClient::Done() {
  if (channel_ == nullptr) return absl::OkStatus();
  absl::MutexLock lock(&mu_);
  at_rest_ = -1;
  auto known = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return done_known_ || !error_.ok(); };
  mu_.Await(absl::Condition(&known));
  return error_;
}

}  // namespace starling
