// The order of a pass: of its splits, and of the rows inside each. A function
// of (seed, pass) alone, so that any worker at any time finds the same batches.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "base/random.h"

namespace starling {

// Fisher–Yates with counter-based draws: the same key gives the same order.
template <typename T>
void Shuffle(uint64_t key, std::vector<T>* items) {
  for (size_t i = items->size(); i > 1; --i) {
    std::swap((*items)[i - 1], (*items)[RandomBelow(key, i, i)]);
  }
}

// Splits by their ordinal in the pass.
inline std::vector<uint32_t> SplitOrder(size_t splits, bool shuffle, uint64_t seed, uint32_t pass) {
  std::vector<uint32_t> order(splits);
  std::iota(order.begin(), order.end(), 0);
  if (shuffle) Shuffle(RandomBits(RandomBits(seed, pass), 0), &order);
  return order;
}

// What the order of a split's rows, and the sample of them, are drawn from.
inline uint64_t RowKey(uint64_t seed, uint32_t pass, uint32_t split) {
  return RandomBits(RandomBits(seed, pass), uint64_t{split} + 1);
}
inline uint64_t SampleKey(uint64_t seed, uint32_t pass, uint32_t split) {
  return RandomBits(RowKey(seed, pass, split), 1);
}

inline std::vector<int64_t> RowOrder(int64_t rows, bool shuffle, uint64_t seed, uint32_t pass,
                                     uint32_t split) {
  std::vector<int64_t> order(rows);
  std::iota(order.begin(), order.end(), 0);
  if (shuffle) Shuffle(RowKey(seed, pass, split), &order);
  return order;
}

}  // namespace starling
