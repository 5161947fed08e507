#include "sample_io/planted_sequence.h"

#include "base/random.h"

namespace starling {
namespace {

constexpr double kSeen = 1.6, kSeenRecently = 1.6;
constexpr double kNever = -1.2;  // About the mean of the rest, so that clicks keep their share.

enum Stream : uint64_t { kLength = 1000, kEvent, kTarget, kAlike, kEventAlike };
uint64_t Key(uint64_t seed, uint64_t stream) { return Mix64(Mix64(seed) + stream); }

}  // namespace

void PlantedSequence::Fill(int64_t row, int64_t user, Row* out) const {
  const auto length = static_cast<int64_t>(RandomBelow(Key(seed_, kLength), user, length_max_ + 1));
  out->seen_items.clear();
  for (int64_t i = 0; i < length; ++i) {
    out->seen_items.push_back(static_cast<int64_t>(
        RandomBelow(Key(seed_, kEvent), static_cast<uint64_t>(user) * length_max_ + i, kItems)));
  }
  // Every other target is of the category of one of the events.
  out->item = static_cast<int64_t>(RandomBelow(Key(seed_, kTarget), row, kItems));
  if (length > 0 && RandomBelow(Key(seed_, kAlike), row, 2) == 0) {
    const int64_t like = out->seen_items[RandomBelow(Key(seed_, kEventAlike), row, length)];
    out->item = out->item / kCategories * kCategories + CategoryOf(like);
  }
  out->logit = kNever;
  for (int64_t i = 0; i < length; ++i) {
    if (CategoryOf(out->seen_items[i]) != CategoryOf(out->item)) continue;
    if (out->logit == kNever) out->logit += kSeen;
    if (i + kRecent >= length) {
      out->logit += kSeenRecently;
      break;
    }
  }
}

}  // namespace starling
