// What held a run back, and what to change, from the run's own numbers.
#pragma once

#include <string>
#include <vector>

#include "scheduler/run.pb.h"

namespace starling {

struct Explanation {
  double work_share = 0;            // Of the cores' time while training: in stages' work.
  std::string bottleneck;           // The stage's name, or "checkpoint".
  std::string why;                  // One sentence with the numbers.
  std::vector<std::string> advice;  // What to change, the most promising first.
};

Explanation Explain(const RunRecord& run);

}  // namespace starling
