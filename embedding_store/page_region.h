// PageRegion: address space that is reserved once and committed as it is
// needed. Memory grows in small steps without a copy, a move or a moment with
// twice the bytes; addresses stay valid until the region is destroyed.
//
// Whole 2 MiB extents are turned into huge pages as they fill up (where the
// kernel can: 6.1 and later), so that random access misses fewer TLB entries
// and a half-used huge page is never paid for.
//
// Thread safety: none; the owner's lock guards it.
#pragma once

#include <cstdint>

namespace starling {

class PageRegion {
 public:
  // `step_bytes` is what a growth commits at least; both are rounded up to pages.
  PageRegion(int64_t reserve_bytes, int64_t step_bytes);
  ~PageRegion();
  PageRegion(const PageRegion&) = delete;
  PageRegion& operator=(const PageRegion&) = delete;

  char* data() const { return data_; }
  int64_t committed() const { return committed_; }
  // What Grow(bytes) would add to committed(): 0 if `bytes` are there already.
  int64_t GrowthTo(int64_t bytes) const;
  // Commits at least the first `bytes` bytes; new memory is zero. False if the
  // reservation or the machine's memory ends before that.
  bool Grow(int64_t bytes);

 private:
  char* mapping_ = nullptr;
  char* data_ = nullptr;  // Within the mapping, at a huge page's border.
  int64_t mapped_ = 0;
  int64_t reserved_ = 0;
  int64_t step_ = 0;
  int64_t committed_ = 0;
  int64_t collapsed_ = 0;  // Up to here whole extents are huge pages, if they can be.
};

}  // namespace starling
