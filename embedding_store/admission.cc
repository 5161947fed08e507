#include "embedding_store/admission.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/random.h"
#include "base/status.h"

namespace starling {
namespace {

constexpr int kProbes = 4;

}  // namespace

absl::Status AdmissionFilter::Check(const AdmitOptions& options) {
  if (options.has_count() &&
      (options.count() < 1 || options.count() > static_cast<int>(kThresholdMax))) {
    return absl::InvalidArgumentError(
        absl::StrCat("admit.count is ", options.count(), "; it must be within 1..", kThresholdMax));
  }
  if (options.has_probability() && !(options.probability() > 0 && options.probability() <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("admit.probability is ", options.probability(),
                                                   "; it must be above 0 and at most 1"));
  }
  return absl::OkStatus();
}

AdmissionFilter::AdmissionFilter(const AdmitOptions& options, uint64_t table_seed,
                                 int64_t bytes_max)
    : options_(options), seed_(Mix64(table_seed ^ 0x41444D4954ull)) {
  bool always = options.rule_case() == AdmitOptions::RULE_NOT_SET ||
                (options.has_count() && options.count() == 1);
  if (always) return;
  uint64_t counters = std::max<int64_t>(bytes_max, 64) / sizeof(uint16_t);
  counters_.resize(std::bit_floor(counters));
}

uint32_t AdmissionFilter::Threshold(uint64_t id) const {
  if (options_.has_count()) return options_.count();
  if (!options_.has_probability() || options_.probability() >= 1) return 1;
  double u = RandomUniform(seed_, id);
  double failures = std::floor(std::log1p(-u) / std::log1p(-options_.probability()));
  return static_cast<uint32_t>(std::min<double>(1 + failures, kThresholdMax));
}

bool AdmissionFilter::Admit(uint64_t id, uint32_t sights) {
  if (counters_.empty()) return true;
  const uint64_t mask = counters_.size() - 1;
  const uint64_t start = Mix64(id ^ seed_), step = Mix64(start) | 1;
  uint32_t least = kThresholdMax;
  for (int i = 0; i < kProbes; ++i) {
    uint16_t& counter = counters_[(start + i * step) & mask];
    counter = static_cast<uint16_t>(std::min<uint64_t>(uint64_t{counter} + sights, kThresholdMax));
    least = std::min<uint32_t>(least, counter);
  }
  return least >= Threshold(id);
}

absl::string_view AdmissionFilter::Serialize() const {
  return {reinterpret_cast<const char*>(counters_.data()), static_cast<size_t>(bytes())};
}

absl::Status AdmissionFilter::Merge(absl::string_view bytes) {
  if (counters_.empty() || bytes.empty()) return absl::OkStatus();
  const size_t size = bytes.size() / sizeof(uint16_t);
  if (bytes.size() % sizeof(uint16_t) != 0 || !std::has_single_bit(size)) {
    return absl::InvalidArgumentError(
        absl::StrCat("an admission state of ", bytes.size(), " bytes is not one of ours"));
  }
  // Positions are taken modulo a power of two: a longer state folds onto this
  // one and a shorter one repeats over it, and neither lowers any id's count.
  for (size_t i = 0; i < std::max(size, counters_.size()); ++i) {
    uint16_t other;
    std::memcpy(&other, bytes.data() + (i & (size - 1)) * sizeof(other), sizeof(other));
    uint16_t& mine = counters_[i & (counters_.size() - 1)];
    mine = std::max(mine, other);
  }
  return absl::OkStatus();
}

}  // namespace starling
