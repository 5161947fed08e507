// CRC32C (Castagnoli), by the SSE4.2 instruction where the machine has it.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace starling {

// The checksum of `bytes` appended to data whose checksum is `crc`.
uint32_t Crc32c(absl::string_view bytes, uint32_t crc = 0);

// The same of data whose parts' checksums are known: `crc`, then `crc_after` of `bytes_after`
// bytes.
uint32_t JoinCrc32c(uint32_t crc, uint32_t crc_after, uint64_t bytes_after);

}  // namespace starling
