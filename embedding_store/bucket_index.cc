#include "embedding_store/bucket_index.h"

#include <algorithm>

namespace starling {
namespace {

constexpr double kLoadMax = 0.85;
constexpr int64_t kLinesMin = 4096 / 64;  // A page.

}  // namespace

BucketIndex::BucketIndex(int64_t reserve_bytes, int64_t step_bytes)
    : region_(reserve_bytes, step_bytes) {
  if (region_.Grow(kLinesMin * sizeof(Line))) SetLines(kLinesMin);
}

void BucketIndex::SetLines(int64_t count) {
  lines_count_.store(static_cast<uint32_t>(count), std::memory_order_relaxed);
  size_max_ = static_cast<int64_t>(static_cast<double>(count * kEntries) * kLoadMax);
}

int64_t BucketIndex::GrownLines() const {
  const int64_t count = lines_count_.load(std::memory_order_relaxed);
  return std::max(kLinesMin, count + count / 5 + 1);
}

bool BucketIndex::Grow() {
  const int64_t count = GrownLines();
  if (!region_.Grow(count * sizeof(Line))) return false;
  std::memset(static_cast<void*>(lines()), 0, count * sizeof(Line));
  SetLines(count);
  size_ = 0;
  return true;
}

void BucketIndex::Insert(uint64_t hash, uint32_t slot) {
  uint32_t l = Home(hash);
  while (lines()[l].used == kEntries) {
    ++lines()[l].passed;
    l = Next(l);
  }
  Line& line = lines()[l];
  line.tags[line.used] = Tag(hash);
  line.slots[line.used] = slot;
  ++line.used;
  ++size_;
}

void BucketIndex::Erase(uint64_t hash, uint32_t slot) {
  for (uint32_t l = Home(hash);; l = Next(l)) {
    Line& line = lines()[l];
    for (uint32_t i = 0; i < line.used; ++i) {
      if (line.slots[i] != slot) continue;
      --line.used;
      line.tags[i] = line.tags[line.used];
      line.slots[i] = line.slots[line.used];
      --size_;
      return;
    }
    --line.passed;  // The entry lives further on, and passes here no more.
  }
}

}  // namespace starling
