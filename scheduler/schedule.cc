#include "scheduler/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace starling {

double LearningRateScale(const ScheduleOptions& schedule, int64_t step, double plateau) {
  double scale = plateau;
  if (schedule.has_cosine()) {
    double done = std::min(1.0, static_cast<double>(step) / schedule.cosine().steps());
    double floor = schedule.cosine().floor();
    scale = floor + (1 - floor) * 0.5 * (1 + std::cos(std::numbers::pi * done));
  } else if (schedule.has_step()) {
    scale = std::pow(schedule.step().factor(), static_cast<double>(step / schedule.step().every()));
  }
  if (step < schedule.warmup_steps())
    scale *= static_cast<double>(step + 1) / schedule.warmup_steps();
  return scale;
}

double CutPlateau(const ScheduleOptions& schedule, double plateau) {
  if (!schedule.has_plateau()) return plateau;
  return std::max(schedule.plateau().floor(), plateau * schedule.plateau().factor());
}

}  // namespace starling
