// PageArena: the memory of one table, handed out in chunks that are never
// given back. Address space is reserved once and the machine's memory is taken
// page by page as chunks are used, so a table grows without a copy, a move or
// a moment with twice the bytes. A large arena is on huge pages, which all
// parts of the table share: no half-used one is paid for more than once.
//
// Thread safety: any method, any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace starling {

class PageArena {
 public:
  explicit PageArena(int64_t reserve_bytes);
  ~PageArena();
  PageArena(const PageArena&) = delete;
  PageArena& operator=(const PageArena&) = delete;

  // Zeroed memory at a cache line's border, valid until the arena is
  // destroyed; null if the reservation is used up.
  char* Allocate(int64_t bytes);

 private:
  char* mapping_ = nullptr;  // Null: nothing could be reserved.
  char* data_ = nullptr;     // Within the mapping, at a huge page's border.
  int64_t mapped_ = 0;
  int64_t reserved_ = 0;
  std::atomic<int64_t> used_{0};
};

}  // namespace starling
