#include "embedding_store/bucket_index.h"

#include <utility>

namespace starling {

void BucketIndex::Insert(uint64_t id, uint32_t slot) {
  if (Full()) Grow();
  size_t l = Home(id);
  while (lines_[l].used == kEntries) {
    ++lines_[l].passed;
    l = Next(l);
  }
  Line& line = lines_[l];
  line.ids[line.used] = id;
  line.slots[line.used] = slot;
  ++line.used;
  ++size_;
}

void BucketIndex::Erase(uint64_t id) {
  for (size_t l = Home(id);; l = Next(l)) {
    Line& line = lines_[l];
    for (uint32_t i = 0; i < line.used; ++i) {
      if (line.ids[i] != id) continue;
      --line.used;
      line.ids[i] = line.ids[line.used];
      line.slots[i] = line.slots[line.used];
      --size_;
      return;
    }
    --line.passed;  // The entry lives further on, and passes here no more.
  }
}

void BucketIndex::Grow() {
  std::vector<Line> old = std::exchange(lines_, std::vector<Line>(lines_.size() * 2));
  size_ = 0;
  for (const Line& line : old) {
    for (uint32_t i = 0; i < line.used; ++i) Insert(line.ids[i], line.slots[i]);
  }
}

}  // namespace starling
