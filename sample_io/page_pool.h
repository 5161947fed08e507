// Memory for the pages of untrusted files.
#pragma once

#include <cstdint>

namespace arrow {
class MemoryPool;
}

namespace starling {

inline constexpr int64_t kPageBytesMax = int64_t{256} << 20;

// Arrow's default pool, but that it refuses to allocate more than kPageBytesMax at once: no
// page is so large, whatever a damaged header says. Lives for ever, as what it gives may.
arrow::MemoryPool* PagePool();

}  // namespace starling
