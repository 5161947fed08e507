#include "sample_io/sketches.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <tuple>

namespace starling {
namespace {

constexpr int kRankMax = 64 - HyperLogLog::kPrecision + 1;

// Ertl, "New cardinality estimation algorithms for HyperLogLog sketches",
// 2017: the share of registers still zero, and of those at the top, each
// extended to the infinite register the raw estimate is unbiased for.
double Sigma(double x) {
  if (x == 1) return std::numeric_limits<double>::infinity();
  double y = 1, z = x, before;
  do {
    x *= x;
    before = z;
    z += x * y;
    y += y;
  } while (z != before);
  return z;
}

double Tau(double x) {
  if (x == 0 || x == 1) return 0;
  double y = 1, z = 1 - x, before;
  do {
    x = std::sqrt(x);
    before = z;
    y *= 0.5;
    z -= (1 - x) * (1 - x) * y;
  } while (z != before);
  return z / 3;
}

}  // namespace

void HyperLogLog::Add(uint64_t hash) {
  const uint64_t rest = hash << kPrecision;
  const int rank = rest == 0 ? kRankMax : std::countl_zero(rest) + 1;
  uint8_t& held = registers_[hash >> (64 - kPrecision)];
  held = std::max(held, static_cast<uint8_t>(rank));
}

void HyperLogLog::Merge(const HyperLogLog& other) {
  for (size_t i = 0; i < registers_.size(); ++i) {
    registers_[i] = std::max(registers_[i], other.registers_[i]);
  }
}

double HyperLogLog::Estimate() const {
  int64_t count[kRankMax + 1] = {};
  for (uint8_t held : registers_) ++count[held];
  const auto m = static_cast<double>(registers_.size());
  double z = m * Tau(1 - static_cast<double>(count[kRankMax]) / m);
  for (int k = kRankMax - 1; k >= 1; --k) z = 0.5 * (z + static_cast<double>(count[k]));
  z += m * Sigma(static_cast<double>(count[0]) / m);
  return m * m / (2 * std::log(2.0) * z);
}

void TopValues::Add(uint64_t key, absl::string_view text, int64_t count) {
  total_ += count;
  auto [slot, is_new] = entries_.try_emplace(key);
  if (is_new) slot->second.text = std::string(text.substr(0, kTextBytesMax));
  slot->second.count += count;
  if (is_new && entries_.size() > 2 * capacity_) Purge();
}

void TopValues::Merge(const TopValues& other) {
  // All in before any purge: the result must not depend on the map's order.
  for (const auto& [key, slot] : other.entries_) {
    auto [mine, is_new] = entries_.try_emplace(key);
    if (is_new) mine->second.text = slot.text;
    mine->second.count += slot.count;
  }
  total_ += other.total_;
  error_ += other.error_;
  if (entries_.size() > 2 * capacity_) Purge();
}

// Takes the (capacity + 1)th greatest count off every one. At least capacity + 1
// counts lose that much, which bounds the sum of all that is ever taken.
void TopValues::Purge() {
  std::vector<int64_t> counts;
  counts.reserve(entries_.size());
  for (const auto& [key, slot] : entries_) counts.push_back(slot.count);
  std::nth_element(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(capacity_),
                   counts.end(), std::greater<>());
  const int64_t off = counts[capacity_];
  absl::erase_if(entries_, [off](auto& entry) {
    entry.second.count -= off;
    return entry.second.count <= 0;
  });
  error_ += off;
}

int64_t TopValues::Count(uint64_t key) const {
  auto found = entries_.find(key);
  return found == entries_.end() ? 0 : found->second.count;
}

std::vector<TopValues::Entry> TopValues::Top(size_t n) const {
  std::vector<Entry> top;
  for (const auto& [key, slot] : entries_) top.push_back({key, slot.text, slot.count});
  std::sort(top.begin(), top.end(), [](const Entry& a, const Entry& b) {
    return std::make_tuple(-a.count, std::cref(a.text), static_cast<int64_t>(a.key)) <
           std::make_tuple(-b.count, std::cref(b.text), static_cast<int64_t>(b.key));
  });
  if (top.size() > n) top.resize(n);
  return top;
}

void ValueSample::Merge(const ValueSample& other) {
  for (const auto& [priority, value] : other.values_) Add(priority, value);
}

void ValueSample::Shrink() {
  auto end = values_.begin() + static_cast<std::ptrdiff_t>(capacity_);
  std::nth_element(values_.begin(), end - 1, values_.end());
  priority_max_ = (end - 1)->first;
  values_.erase(end, values_.end());
}

std::vector<double> ValueSample::Sorted() const {
  ValueSample least = *this;
  if (least.values_.size() > capacity_) least.Shrink();
  std::vector<double> values;
  for (const auto& [priority, value] : least.values_) values.push_back(value);
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace starling
