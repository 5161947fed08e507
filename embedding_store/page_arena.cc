#include "embedding_store/page_arena.h"

#include <sys/mman.h>

#include <algorithm>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace starling {
namespace {

constexpr int64_t kPage = 4 << 10, kHugePage = 2 << 20;

int64_t RoundUp(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void PageRegion::Populate(int64_t begin, int64_t end) const {
  // Whole pages; a kernel that cannot do it takes them as they are written.
  begin = begin / kPage * kPage;
  end = end / kPage * kPage;
  if (begin < end) ::madvise(data_ + begin, end - begin, MADV_POPULATE_WRITE);
}

bool PageRegion::HasFullPages(int64_t end) const { return huge_ + kHugePage <= end; }

bool PageRegion::MakeHuge(int64_t end) {
  if (!HasFullPages(end)) return false;
  // A kernel that cannot do it at once may do it later; where it has no huge
  // pages they stay small: slower, not wrong.
  if (::madvise(data_ + huge_, kHugePage, MADV_COLLAPSE) != 0) {
    ::madvise(data_ + huge_, kHugePage, MADV_HUGEPAGE);
  }
  huge_ += kHugePage;
  return true;
}

void PageRegion::ExpectWrites(int64_t end, int64_t populated) {
  constexpr int64_t kNearly = kHugePage / 16;  // A page that lacks no more will be full too.
  const int64_t expected = std::min(end + kNearly, reserved_) / kHugePage * kHugePage;
  if (expected <= huge_) return;
  ::madvise(data_ + huge_, expected - huge_, MADV_HUGEPAGE);
  for (int64_t at = huge_; at < std::min(populated, expected); at += kHugePage) {
    ::madvise(data_ + at, kHugePage, MADV_COLLAPSE);
  }
  huge_ = expected;
}

PageArena::PageArena(int64_t reserve_bytes) {
  const int64_t reserve = Rounded(reserve_bytes);
  mapped_ = reserve + kHugePage;
  void* mapping = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, /*fd=*/-1, 0);
  if (mapping == MAP_FAILED) return;
  mapping_ = static_cast<char*>(mapping);
  data_ = reinterpret_cast<char*>(RoundUp(reinterpret_cast<int64_t>(mapping_), kHugePage));
  reserved_ = reserve;
}

PageArena::~PageArena() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_);
}

int64_t PageArena::Rounded(int64_t bytes) { return RoundUp(bytes, kHugePage); }

PageRegion PageArena::Cut(int64_t bytes) {
  const int64_t size = Rounded(bytes);
  if (cut_ + size > reserved_) return {};
  cut_ += size;
  return {data_ + cut_ - size, size};
}

}  // namespace starling
