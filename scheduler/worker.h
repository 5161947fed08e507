// A worker: trains the splits that are its own against remote parameters,
// asynchronously (each gradient is applied on arrival). Split s belongs to
// worker s modulo workers. A launcher tells it where to begin, and brings it to
// rest for cuts (scheduler/worker_barrier.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sample_io/source.h"
#include "scheduler/plan.h"

namespace starling {

struct WorkerOptions {
  std::vector<std::string> servers;  // host:port, in shard order.
  int worker = 0;
  int workers = 1;
  std::string launcher;  // host:port of its WorkerBarrier; "": it begins at the beginning.
};
struct WorkerSummary {
  int64_t steps = 0, samples = 0;
  double seconds = 0;
};

// Trains all passes. InvalidArgument if the job asks for what needs one
// process: early stopping or the plateau schedule.
absl::StatusOr<WorkerSummary> RunWorker(const Plan& plan, const SampleSource& train,
                                        const WorkerOptions& options,
                                        const std::atomic<bool>* stop);

// The same refusal, for whoever starts workers.
absl::Status CheckDistributable(const Plan& plan);

}  // namespace starling
