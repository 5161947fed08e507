#include "embedding_store/bucket_index.h"

#include <algorithm>
#include <cstring>

namespace starling {
namespace {

constexpr double kLoadMax = 0.85;

}  // namespace

BucketIndex::BucketIndex(PageArena* arena, int64_t chunk_bytes)
    : arena_(arena),
      shift_(std::bit_width<uint64_t>(std::max<int64_t>(chunk_bytes / int64_t{sizeof(Line)}, 1)) -
             1),
      mask_((1u << shift_) - 1) {
  Grow();
}

void BucketIndex::SetLines(int64_t count) {
  lines_ = count;
  size_max_ = static_cast<int64_t>(static_cast<double>(count * kEntries) * kLoadMax);
}

int64_t BucketIndex::GrownLines() const {
  const auto count = static_cast<int64_t>(lines_);
  // The first chunk is used whole.
  return std::max<int64_t>(int64_t{mask_} + 1, count + count / 5 + 1);
}

bool BucketIndex::Grow() {
  const int64_t count = GrownLines();
  const int64_t more = growth_bytes();
  if (more > 0) {  // All of it or nothing.
    char* const memory = arena_->Allocate(more);
    if (memory == nullptr) return false;
    for (int64_t at = 0; at < more; at += chunk_bytes()) {
      chunks_.push_back(reinterpret_cast<Line*>(memory + at));
    }
  }
  for (Line* chunk : chunks_) std::memset(static_cast<void*>(chunk), 0, chunk_bytes());
  SetLines(count);
  size_ = 0;
  return true;
}

void BucketIndex::Insert(uint64_t hash, uint32_t slot) {
  uint32_t l = Home(hash);
  while (LineAt(l).used == kEntries) {
    ++LineAt(l).passed;
    l = Next(l);
  }
  Line& line = LineAt(l);
  line.tags[line.used] = Tag(hash);
  line.slots[line.used] = slot;
  ++line.used;
  ++size_;
}

void BucketIndex::Erase(uint64_t hash, uint32_t slot) {
  for (uint32_t l = Home(hash);; l = Next(l)) {
    Line& line = LineAt(l);
    for (uint32_t i = 0; i < line.used; ++i) {
      if (line.slots[i] != slot) continue;
      --line.used;
      line.tags[i] = line.tags[line.used];
      line.slots[i] = line.slots[line.used];
      line.tags[line.used] = 0;
      --size_;
      return;
    }
    --line.passed;  // The entry lives further on, and passes here no more.
  }
}

}  // namespace starling
