// Memory for arrays that a step goes through in no order: from some megabytes on
// it is on huge pages where the machine has them, since else nearly every access
// would wait for its address to be translated as well.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace starling {

// On a cache line's border, with unspecified content; for std::free. Too little
// memory ends the process, as with `new`.
void* AllocateBig(size_t bytes);

struct FreeBig {
  void operator()(void* memory) const { std::free(memory); }
};

// Floats that are kept from use to use.
class BigFloats {
 public:
  // Room for `floats`, with unspecified content. What it gave before is gone if it had to grow.
  float* Reserve(size_t floats) {
    if (floats > size_) {
      size_ = floats + floats / 8;  // The next use may need a little more.
      memory_.reset();              // First: never both.
      memory_.reset(static_cast<float*>(AllocateBig(size_ * sizeof(float))));
    }
    return memory_.get();
  }

 private:
  std::unique_ptr<float, FreeBig> memory_;
  size_t size_ = 0;
};

}  // namespace starling
