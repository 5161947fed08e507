// PageArena: the address space of one table, cut into regions that grow in
// place. It is reserved once, and the machine's memory is taken page by page
// as a region is used: so a table grows without a copy, a move or a moment
// with twice the bytes, and what belongs together is close together.
//
// A huge page's worth of a region becomes a huge page when it is full and its
// owner says so: no region holds a half-used one. It costs a copy, and others of
// this process that need memory wait meanwhile. An owner who knows how much will
// be written can have it without.
//
// Thread safety: PageArena, any thread; a region, its owner's lock.
#pragma once

#include <cstdint>

namespace starling {

class PageRegion {
 public:
  PageRegion() = default;
  PageRegion(char* data, int64_t reserved) : data_(data), reserved_(reserved) {}
  // Zeroed memory at a page's border, until the arena is destroyed.
  char* data() const { return data_; }
  int64_t reserved() const { return reserved_; }
  // Bytes [begin, end) will be written now: brings their pages in by one call of the kernel
  // instead of a fault for each.
  void Populate(int64_t begin, int64_t end) const;
  // Bytes below `end` have all been written. Turns one huge page's worth of them
  // into a huge page; false if there was none to turn.
  bool MakeHuge(int64_t end);
  bool HasFullPages(int64_t end) const;
  // Bytes below `end` will soon be written, those below `populated` have their pages: whole huge
  // pages of them are huge from their first byte on, which spares the copy of full ones.
  void ExpectWrites(int64_t end, int64_t populated);

 private:
  char* data_ = nullptr;
  int64_t reserved_ = 0;
  int64_t huge_ = 0;  // Bytes from the start for which huge pages were asked.
};

class PageArena {
 public:
  explicit PageArena(int64_t reserve_bytes);
  ~PageArena();
  PageArena(const PageArena&) = delete;
  PageArena& operator=(const PageArena&) = delete;

  // The next region; an empty one if the reservation is used up. Its size is
  // rounded up to whole huge pages, which cost nothing while unused.
  PageRegion Cut(int64_t bytes);
  // What Cut takes of the reservation.
  static int64_t Rounded(int64_t bytes);

 private:
  char* mapping_ = nullptr;  // Null: nothing could be reserved.
  char* data_ = nullptr;     // Within the mapping, at a huge page's border.
  int64_t mapped_ = 0;
  int64_t reserved_ = 0;
  int64_t cut_ = 0;
};

}  // namespace starling
