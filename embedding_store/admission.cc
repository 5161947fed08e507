#include "embedding_store/admission.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/hash.h"
#include "base/random.h"
#include "base/status.h"
#include "embedding_store/row_file_format.h"

namespace starling {
namespace {

constexpr int kProbes = 4;
// What a state begins with.
constexpr char kBloom = 1, kExact = 2;
constexpr size_t kExactBytes = sizeof(uint64_t) + sizeof(uint16_t);
// Of a place of the hash map: its entry and a byte of control.
constexpr size_t kPlaceBytes = sizeof(std::pair<const uint64_t, uint16_t>) + 1;

absl::Status CheckCount(const char* key, int count) {
  if (count >= 1 && count <= static_cast<int>(AdmissionFilter::kThresholdMax)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "admit.", key, " is ", count, "; it must be within 1..", AdmissionFilter::kThresholdMax));
}

absl::Status NotOurs(size_t bytes) {
  return absl::InvalidArgumentError(
      absl::StrCat("an admission state of ", bytes, " bytes is not one of ours"));
}

}  // namespace

absl::Status AdmissionFilter::Check(const AdmitOptions& options) {
  if (options.has_count()) RETURN_IF_ERROR(CheckCount("count", options.count()));
  if (options.has_exact_count()) RETURN_IF_ERROR(CheckCount("exact_count", options.exact_count()));
  if (options.has_probability() && !(options.probability() > 0 && options.probability() <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("admit.probability is ", options.probability(),
                                                   "; it must be above 0 and at most 1"));
  }
  return absl::OkStatus();
}

AdmissionFilter::AdmissionFilter(const AdmitOptions& options, uint64_t table_seed,
                                 int64_t bytes_max)
    : options_(options), seed_(Mix64(table_seed ^ 0x41444D4954ull)) {
  const bool always = options.rule_case() == AdmitOptions::RULE_NOT_SET ||
                      (options.has_count() && options.count() == 1) ||
                      (options.has_exact_count() && options.exact_count() == 1);
  if (always) return;
  if (options.has_exact_count()) {
    // All the memory at once: the map has 2^k - 1 places, and with at most
    // 25/32 of them taken it cleans up after erased entries in place.
    const auto places = std::bit_floor(std::max<uint64_t>(bytes_max, 1024) / kPlaceBytes) - 1;
    exact_max_ = places * 3 / 4;
    exact_.reserve(exact_max_);
    return;
  }
  counters_.resize(std::bit_floor(std::max<uint64_t>(bytes_max, 64) / sizeof(uint16_t)));
}

int64_t AdmissionFilter::bytes() const {
  return static_cast<int64_t>(counters_.size() * sizeof(uint16_t) +
                              exact_.capacity() * kPlaceBytes);
}

uint32_t AdmissionFilter::Threshold(uint64_t id) const {
  if (options_.has_count()) return options_.count();
  if (options_.has_exact_count()) return options_.exact_count();
  if (!options_.has_probability() || options_.probability() >= 1) return 1;
  double u = RandomUniform(seed_, id);
  double failures = std::floor(std::log1p(-u) / std::log1p(-options_.probability()));
  return static_cast<uint32_t>(std::min<double>(1 + failures, kThresholdMax));
}

bool AdmissionFilter::Admit(uint64_t id, uint32_t sights) {
  if (exact_max_ > 0) return AdmitExact(id, sights);
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

bool AdmissionFilter::AdmitExact(uint64_t id, uint32_t sights) {
  auto it = exact_.find(id);
  const uint64_t seen = (it != exact_.end() ? it->second : 0) + uint64_t{sights};
  if (it == exact_.end()) {
    // One that is admitted at its first sight needs no counter.
    if (seen >= Threshold(id)) return true;
    MakeRoom();
    it = exact_.try_emplace(id, 0).first;
  }
  it->second = static_cast<uint16_t>(std::min<uint64_t>(seen, kThresholdMax));
  return seen >= Threshold(id);
}

void AdmissionFilter::MakeRoom() {
  while (exact_.size() >= exact_max_) {
    absl::erase_if(exact_, [](auto& counter) { return (counter.second >>= 1) == 0; });
  }
}

void AdmissionFilter::HasRow(uint64_t id) {
  if (exact_max_ > 0) exact_.erase(id);
}

void AdmissionFilter::AppendTo(std::string* out) const {
  if (!counters_.empty()) {
    out->push_back(kBloom);
    out->append(reinterpret_cast<const char*>(counters_.data()),
                counters_.size() * sizeof(uint16_t));
  }
  if (exact_max_ == 0) return;
  out->push_back(kExact);
  std::vector<std::pair<uint64_t, uint16_t>> sorted(exact_.begin(), exact_.end());
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [id, count] : sorted) {
    out->append(reinterpret_cast<const char*>(&id), sizeof(id));
    out->append(reinterpret_cast<const char*>(&count), sizeof(count));
  }
}

absl::Status AdmissionFilter::Merge(absl::string_view bytes,
                                    const std::function<bool(uint64_t)>& owns) {
  if (bytes.empty()) return absl::OkStatus();
  const absl::string_view state = bytes.substr(1);
  if (bytes[0] == kBloom) return MergeBloom(state);
  if (bytes[0] == kExact) return MergeExact(state, owns);
  return NotOurs(bytes.size());
}

absl::Status AdmissionFilter::MergeBloom(absl::string_view bytes) {
  const size_t size = bytes.size() / sizeof(uint16_t);
  if (bytes.size() % sizeof(uint16_t) != 0 || !std::has_single_bit(size)) {
    return NotOurs(bytes.size());
  }
  if (counters_.empty()) return absl::OkStatus();
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

absl::Status AdmissionFilter::MergeExact(absl::string_view bytes,
                                         const std::function<bool(uint64_t)>& owns) {
  if (bytes.size() % kExactBytes != 0) return NotOurs(bytes.size());
  if (exact_max_ == 0) return absl::OkStatus();
  for (size_t at = 0; at < bytes.size(); at += kExactBytes) {
    uint64_t id;
    uint16_t count;
    std::memcpy(&id, bytes.data() + at, sizeof(id));
    std::memcpy(&count, bytes.data() + at + sizeof(id), sizeof(count));
    if (!owns(id)) continue;
    if (!exact_.contains(id)) MakeRoom();
    uint16_t& mine = exact_[id];
    mine = std::max(mine, count);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<absl::string_view>> SplitAdmissionStates(absl::string_view bytes) {
  const absl::Status bad = absl::DataLossError("the admission state is not one of ours");
  if (bytes.size() < sizeof(uint32_t)) return bad;
  const auto stripes = row_file::Get<uint32_t>(bytes.data());
  bytes.remove_prefix(sizeof(uint32_t));
  if (!std::has_single_bit(stripes) || stripes > kBuckets) return bad;
  std::vector<absl::string_view> parts;
  for (uint32_t s = 0; s < stripes; ++s) {
    if (bytes.size() < sizeof(uint64_t)) return bad;
    const auto size = row_file::Get<uint64_t>(bytes.data());
    bytes.remove_prefix(sizeof(uint64_t));
    if (bytes.size() < size) return bad;
    parts.push_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  if (!bytes.empty()) return bad;
  return parts;
}

}  // namespace starling
