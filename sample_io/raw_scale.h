// RawScale: a number of the data → a number of Batch::dense. It is clipped, in
// the data's units, then normalised.
//
// Most numbers are small counts, so the logarithms of these are kept: the very
// values that std::log1p gives.
#pragma once

#include <array>
#include <cmath>

#include "sample_io/data.pb.h"

namespace starling {

// log1p(0), log1p(1), … log1p(kSmallLogs - 1).
inline constexpr int kSmallLogs = 2048;
inline const double* SmallLogs() {
  static const std::array<double, kSmallLogs> logs = [] {
    std::array<double, kSmallLogs> out;
    for (int i = 0; i < kSmallLogs; ++i) out[i] = std::log1p(static_cast<double>(i));
    return out;
  }();
  return logs.data();
}
// The same as they stand in Batch::dense.
inline const float* SmallFloatLogs() {
  static const std::array<float, kSmallLogs> logs = [] {
    std::array<float, kSmallLogs> out;
    for (int i = 0; i < kSmallLogs; ++i) out[i] = static_cast<float>(SmallLogs()[i]);
    return out;
  }();
  return logs.data();
}

class RawScale {
 public:
  explicit RawScale(const RawFeature& raw) {
    if (raw.has_clip()) {
      clip_ = true;
      least_ = raw.clip().min();
      most_ = raw.clip().max();
    }
    log1p_ = raw.norm() == RawFeature::LOG1P;
    linear_ = raw.has_minmax() || raw.has_zscore();
    if (raw.has_minmax()) {
      zero_ = raw.minmax().min();
      unit_ = raw.minmax().max() - raw.minmax().min();
    } else if (raw.has_zscore()) {
      zero_ = raw.zscore().mean();
      unit_ = raw.zscore().stddev();
    }
  }

  // True if the logarithm is all there is to it: then Log gives the same as operator().
  bool is_log() const { return log1p_ && !clip_ && !linear_; }
  float Log(double x) const { return static_cast<float>(std::copysign(Log1p(std::fabs(x)), x)); }

  // NaN stays NaN, whatever the clip.
  float operator()(double x) const {
    if (clip_) x = x < least_ ? least_ : x > most_ ? most_ : x;
    if (log1p_) x = std::copysign(Log1p(std::fabs(x)), x);
    if (linear_) x = (x - zero_) / unit_;
    return static_cast<float>(x);
  }

 private:
  double Log1p(double x) const {
    if (x < kSmallLogs) {
      const int whole = static_cast<int>(x);
      if (whole == x) return small_logs_[whole];
    }
    return std::log1p(x);
  }

  const double* small_logs_ = SmallLogs();
  bool clip_ = false, log1p_ = false, linear_ = false;
  double least_ = 0, most_ = 0;
  double zero_ = 0, unit_ = 1;
};

}  // namespace starling
