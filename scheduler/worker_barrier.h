// WorkerBarrier: brings all workers of a job to rest, so that a cut of the
// servers and of the workers' positions is one instant. The launcher has one
// and answers workers by RPC; a worker has a BarrierClient.
//
// Cuts are numbered: a word of rest for an earlier one is never taken for a
// later one's.
//
// Thread safety: any method, any thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/transport.h"
#include "scheduler/worker.pb.h"

namespace starling {

class WorkerBarrier {
 public:
  // `from` says where each worker begins.
  static absl::StatusOr<std::unique_ptr<WorkerBarrier>> Start(std::vector<WorkerState> from);

  std::string address() const;
  void Hold();  // All must come to rest.
  bool holding() const;
  // Holding, and all workers stand still or have come to their end.
  bool AtRest() const;
  void Release();
  // As last reported. One instant of all only while AtRest.
  std::vector<WorkerState> states() const;

 private:
  explicit WorkerBarrier(std::vector<WorkerState> from)
      : states_(std::move(from)), at_rest_(states_.size()) {}
  absl::StatusOr<RpcMessage> Handle(absl::string_view method, const RpcMessage& request);
  absl::StatusOr<RpcMessage> Join(const JoinRequest& request);
  absl::StatusOr<RpcMessage> Report(const ReportRequest& request);

  mutable absl::Mutex mu_;
  std::vector<WorkerState> states_ ABSL_GUARDED_BY(mu_);
  std::vector<int64_t> at_rest_ ABSL_GUARDED_BY(mu_);  // As reported, by worker.
  int64_t cuts_ ABSL_GUARDED_BY(mu_) = 0;
  bool holding_ ABSL_GUARDED_BY(mu_) = false;
  std::unique_ptr<RpcServer> server_;  // Last: its handlers use the above.
};

class BarrierClient {
 public:
  // `address` "": a worker without a launcher, which nobody holds.
  static absl::StatusOr<std::unique_ptr<BarrierClient>> Join(const std::string& address,
                                                             int worker);
  ~BarrierClient();

  const WorkerState& from() const { return from_; }
  // After a step. Sent by and by.
  void Report(const WorkerState& state);
  // True: the worker must come to rest and call Rest.
  bool hold() const { return hold_.load(std::memory_order_relaxed) != 0; }
  // The worker stands still at the state it has reported; returns when it may
  // go on. Unavailable if the launcher is gone.
  absl::Status Rest();
  // It has come to its end; returns when the launcher knows.
  absl::Status Done();

 private:
  BarrierClient(const std::string& address, int worker);
  void Work();
  absl::Status Send();

  const int worker_;
  WorkerState from_;                     // Constant after Join.
  std::unique_ptr<RpcChannel> channel_;  // Null without a launcher.
  std::atomic<int64_t> hold_{0};         // As last answered; -1: the launcher is gone.
  absl::Mutex mu_;
  WorkerState state_ ABSL_GUARDED_BY(mu_);
  int64_t at_rest_ ABSL_GUARDED_BY(mu_) = 0;
  bool done_known_ ABSL_GUARDED_BY(mu_) = false;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status error_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace starling
