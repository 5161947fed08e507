// The cold case of `bench train`, and the process it needs.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/bench_child.h"

namespace starling {

// Training in a memory cgroup.
struct CappedTraining {
  struct Command {
    CommandPath dir, group;
    int64_t memory;   // Of the table.
    int64_t samples;  // Of the data.
  };
  struct Rate {
    double samples_per_s;
  };
  // REQUIRES: this process has no other thread yet.
  static absl::StatusOr<CappedTraining> Start();
  BenchChild<Command, Rate> child;
};

// Training with a table of ten times its memory, by the same with all rows in memory.
absl::Status BenchTrainCold(const std::string& dir, bool quick, CappedTraining capped);

}  // namespace starling
