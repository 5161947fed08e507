// How a call is split over the stripes of a table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"
#include "embedding_store/table_core.h"

namespace starling {

// The parts of a call, by stripe; within a stripe in the call's order.
struct StripeParts {
  StripeParts(std::span<const uint64_t> ids, int stripes, int shift) : parts(stripes) {
    std::vector<uint32_t> ends(stripes);
    const bool ordered = FindEnds(ids, shift, &ends);
    if (!ordered) Group(ids, shift, &ends);
    const std::span<const uint64_t> all = ordered ? ids : grouped;
    for (int s = 0; s < stripes; ++s) {
      parts[s].first = s == 0 ? 0 : ends[s - 1];
      const uint32_t size = ends[s] - parts[s].first;
      parts[s].ids = all.subspan(parts[s].first, size);
      if (!ordered) parts[s].positions = std::span(positions).subspan(parts[s].first, size);
    }
  }
  // Where each stripe's ids end, of ids in the order of stripes; else false.
  static bool FindEnds(std::span<const uint64_t> ids, int shift, std::vector<uint32_t>* ends) {
    constexpr size_t kBlock = 64;
    uint32_t last = 0;
    for (size_t begin = 0; begin < ids.size(); begin += kBlock) {
      const size_t end = std::min(ids.size(), begin + kBlock);
      uint32_t others = 0;  // A block of one stripe, as most are, without a branch an id.
      for (size_t p = begin; p < end; ++p) others |= (BucketOf(ids[p]) >> shift) ^ last;
      for (size_t p = begin; others != 0 && p < end; ++p) {
        const uint32_t s = BucketOf(ids[p]) >> shift;
        if (s < last) return false;
        std::fill(ends->begin() + last, ends->begin() + s, static_cast<uint32_t>(p));
        last = s;
      }
    }
    std::fill(ends->begin() + last, ends->end(), static_cast<uint32_t>(ids.size()));
    return true;
  }
  void Group(std::span<const uint64_t> ids, int shift, std::vector<uint32_t>* ends) {
    std::vector<uint32_t> next(ends->size() + 1, 0);
    for (uint64_t id : ids) ++next[(BucketOf(id) >> shift) + 1];
    for (size_t s = 0; s < ends->size(); ++s) (*ends)[s] = next[s + 1] += next[s];
    grouped.resize(ids.size());
    positions.resize(ids.size());
    for (uint32_t p = 0; p < ids.size(); ++p) {
      const uint32_t to = next[BucketOf(ids[p]) >> shift]++;
      grouped[to] = ids[p];
      positions[to] = p;
    }
  }
  std::vector<StripePart> parts;
  std::vector<uint64_t> grouped;  // Empty, as positions, if the ids came in order.
  std::vector<uint32_t> positions;
};

}  // namespace starling
