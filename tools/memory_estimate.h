// What a training process will hold in memory at most, before its first step: by what
// the job says, and by batches of its own data.
#pragma once

#include <cstdint>

#include "dense_net/forward.h"
#include "sample_io/source.h"
#include "scheduler/plan.h"
#include "tools/sample.h"

namespace starling {

// Bytes.
struct MemoryEstimate {
  int64_t tables = 0;   // Rows and index, within the budgets.
  int64_t reading = 0;  // Splits that are read ahead.
  int64_t steps = 0;    // Batches, compiled and under way, their rows and gradients.
  int64_t network = 0;  // Parameters, their optimiser and gradients, activations.
  int64_t process = 0;  // The program and its libraries.
  int64_t total() const { return tables + reading + steps + network + process; }
};

// `table_bytes`: of all tables, as they will be.
MemoryEstimate EstimateMemory(const Plan& plan, const SampleSource& source, const IdSample& sample,
                              const Network& network, int64_t table_bytes);

}  // namespace starling
