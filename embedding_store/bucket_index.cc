#include "embedding_store/bucket_index.h"

#include <algorithm>
#include <cstring>

namespace starling {
namespace {

constexpr double kLoadMax = 0.81;

}  // namespace

BucketIndex::BucketIndex(PageRegion region, int64_t first_bytes, int common_bits)
    : region_(region),
      first_lines_(std::max<int64_t>(first_bytes / int64_t{sizeof(Line)}, 1)),
      common_bits_(common_bits) {
  Grow();
}

int64_t BucketIndex::GrownLines() const {
  return std::max<int64_t>(first_lines_, lines_ + lines_ / 5 + 1);
}

bool BucketIndex::Grow() {
  const int64_t count = GrownLines();
  const int64_t bytes = count * int64_t{sizeof(Line)};
  if (bytes > region_.reserved()) return false;
  std::memset(region_.data(), 0, bytes);
  while (region_.MakeHuge(bytes)) continue;
  lines_ = count;
  size_max_ = static_cast<int64_t>(static_cast<double>(count * kEntries) * kLoadMax);
  size_ = 0;
  return true;
}

void BucketIndex::Insert(uint64_t hash, uint32_t slot) {
  const View at = view();
  Line* line = at.HomeLine(hash);
  for (; line->used == kEntries; line = at.LineAfter(line)) ++line->passed;
  line->tags[line->used] = View::Tag(hash);
  line->slots[line->used] = slot;
  ++line->used;
  ++size_;
}

void BucketIndex::Erase(uint64_t hash, uint32_t slot) {
  const View at = view();
  for (Line* line = at.HomeLine(hash);; line = at.LineAfter(line)) {
    for (uint32_t i = 0; i < line->used; ++i) {
      if (line->slots[i] != slot) continue;
      --line->used;
      line->tags[i] = line->tags[line->used];
      line->slots[i] = line->slots[line->used];
      line->tags[line->used] = 0;
      --size_;
      return;
    }
    --line->passed;  // The entry lives further on, and passes here no more.
  }
}

}  // namespace starling
