#include "embedding_store/page_arena.h"

#include <sys/mman.h>

namespace starling {
namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kHugePage = 2 << 20;
constexpr int64_t kHugeFrom = 16 << 20;  // A smaller arena would feel the last half-used page.

int64_t RoundUp(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

PageArena::PageArena(int64_t reserve_bytes) {
  const int64_t reserve = RoundUp(reserve_bytes, kHugePage);
  mapped_ = reserve + kHugePage;
  void* mapping = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, /*fd=*/-1, 0);
  if (mapping == MAP_FAILED) return;
  mapping_ = static_cast<char*>(mapping);
  data_ = reinterpret_cast<char*>(RoundUp(reinterpret_cast<int64_t>(mapping_), kHugePage));
  reserved_ = reserve;
  // Where the kernel has none, pages stay small: slower, not wrong.
  if (reserve >= kHugeFrom) ::madvise(data_, reserve, MADV_HUGEPAGE);
}

PageArena::~PageArena() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_);
}

char* PageArena::Allocate(int64_t bytes) {
  const int64_t size = RoundUp(bytes, kLine);
  const int64_t begin = used_.fetch_add(size, std::memory_order_relaxed);
  if (begin + size <= reserved_) return data_ + begin;
  used_.fetch_sub(size, std::memory_order_relaxed);
  return nullptr;
}

}  // namespace starling
