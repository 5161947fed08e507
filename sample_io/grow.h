// Room in a vector that is written over again and again: it never shrinks, so
// that only what is new is set to zero.
#pragma once

#include <cstddef>
#include <vector>

namespace starling {

// Makes `values` hold at least `size`.
template <typename T>
void GrowTo(size_t size, std::vector<T>* values) {
  if (values->size() < size) values->resize(size);
}

}  // namespace starling
