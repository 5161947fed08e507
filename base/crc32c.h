// CRC32C (Castagnoli), by the SSE4.2 instruction where the machine has it.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace starling {

// The checksum of `bytes` appended to data whose checksum is `crc`.
uint32_t Crc32c(absl::string_view bytes, uint32_t crc = 0);

}  // namespace starling
