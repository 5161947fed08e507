#include "base/big_memory.h"

#include <sys/mman.h>

#include <new>

namespace starling {
namespace {

constexpr size_t kLine = 64, kHugePage = 2 << 20;
constexpr size_t kBig = 2 * kHugePage;  // Less is not worth whole huge pages.

}  // namespace

void* AllocateBig(size_t bytes) {
  const size_t border = bytes >= kBig ? kHugePage : kLine;
  const size_t whole = (bytes + border - 1) / border * border;
  void* const memory = std::aligned_alloc(border, whole > 0 ? whole : border);
  if (memory == nullptr) throw std::bad_alloc();
  // A kernel without huge pages gives small ones: slower, not wrong.
  if (bytes >= kBig) ::madvise(memory, whole, MADV_HUGEPAGE);
  return memory;
}

}  // namespace starling
