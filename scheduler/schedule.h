// The learning-rate schedule: a factor on every optimiser's own rate.
#pragma once

#include <cstdint>

#include "scheduler/job.pb.h"

namespace starling {

// `step` counts from 0; `plateau` is the product of the cuts made so far by
// the plateau rule (1 otherwise), which is training state and kept by the caller.
double LearningRateScale(const ScheduleOptions& schedule, int64_t step, double plateau);

// The plateau rule's next factor after an evaluation without a better metric.
double CutPlateau(const ScheduleOptions& schedule, double plateau);

}  // namespace starling
