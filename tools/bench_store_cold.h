// The cold case of `bench store`, and the processes it needs.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/bench_store.h"
#include "tools/bench_store_worker.h"

namespace starling {

struct ColdWorkers {
  // REQUIRES: this process has no other thread yet.
  static absl::StatusOr<ColdWorkers> Start();
  std::unique_ptr<LoopWorker> capped, free;
};

absl::Status BenchStoreCold(const StoreBench& bench, ColdWorkers started);

}  // namespace starling
