// How a call is split over the stripes of a table.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"
#include "embedding_store/table_core.h"

namespace starling {

// The parts of a call, by stripe; within a stripe in the call's order.
struct StripeParts {
  StripeParts(std::span<const uint64_t> ids, int stripes, int shift) : parts(stripes) {
    std::vector<uint32_t> next(stripes + 1, 0);
    bool ordered = true;
    uint32_t last = 0;
    for (uint64_t id : ids) {
      const uint32_t s = BucketOf(id) >> shift;
      ++next[s + 1];
      ordered &= s >= last;
      last = s;
    }
    for (int s = 0; s < stripes; ++s) {
      parts[s].first = next[s];
      next[s + 1] += next[s];
    }
    if (!ordered) Group(ids, shift, next);
    const std::span<const uint64_t> all = ordered ? ids : grouped;
    for (int s = 0; s < stripes; ++s) {
      const uint32_t size = next[s + (ordered ? 1 : 0)] - parts[s].first;
      parts[s].ids = all.subspan(parts[s].first, size);
      if (!ordered) parts[s].positions = std::span(positions).subspan(parts[s].first, size);
    }
  }
  void Group(std::span<const uint64_t> ids, int shift, std::vector<uint32_t>& next) {
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
