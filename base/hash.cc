#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace starling {

uint64_t HashBytes(absl::string_view bytes, uint64_t seed) {
  return XXH64(bytes.data(), bytes.size(), seed);
}

}  // namespace starling
