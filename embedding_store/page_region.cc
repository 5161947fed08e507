#include "embedding_store/page_region.h"

#include <sys/mman.h>

#include <algorithm>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace starling {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kHugePage = 2 << 20;

int64_t RoundUp(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

PageRegion::PageRegion(int64_t reserve_bytes, int64_t step_bytes)
    : reserved_(RoundUp(std::max(reserve_bytes, kPage), kPage)),
      step_(RoundUp(std::max(step_bytes, kPage), kPage)) {
  const bool huge = reserved_ >= kHugePage;
  mapped_ = reserved_ + (huge ? kHugePage : 0);
  void* mapping = ::mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                         /*fd=*/-1, 0);
  if (mapping == MAP_FAILED) {
    mapped_ = reserved_ = 0;  // Every Grow fails, and says so.
    return;
  }
  mapping_ = data_ = static_cast<char*>(mapping);
  if (huge) {
    data_ = reinterpret_cast<char*>(RoundUp(reinterpret_cast<int64_t>(mapping_), kHugePage));
  }
}

PageRegion::~PageRegion() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_);
}

int64_t PageRegion::GrowthTo(int64_t bytes) const {
  if (bytes <= committed_) return 0;
  return std::max(std::min(RoundUp(bytes, step_), reserved_), RoundUp(bytes, kPage)) - committed_;
}

bool PageRegion::Grow(int64_t bytes) {
  const int64_t growth = GrowthTo(bytes);
  if (growth == 0) return true;
  if (committed_ + growth > reserved_) return false;
  if (::mprotect(data_ + committed_, growth, PROT_READ | PROT_WRITE) != 0) return false;
  // Extents that ended before this growth are written all over by now.
  const int64_t full = committed_ / kHugePage * kHugePage;
  if (full > collapsed_) {
    ::madvise(data_ + collapsed_, full - collapsed_, MADV_COLLAPSE);
    collapsed_ = full;
  }
  committed_ += growth;
  return true;
}

}  // namespace starling
