#include "base/crc32c.h"

#include <nmmintrin.h>

#include <array>
#include <cstring>

namespace starling {
namespace {

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c >> 1) ^ (0x82F63B78u & (0u - (c & 1)));
    table[i] = c;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

uint32_t Portable(const char* p, size_t n, uint32_t c) {
  for (size_t i = 0; i < n; ++i) c = kTable[(c ^ static_cast<uint8_t>(p[i])) & 0xFF] ^ (c >> 8);
  return c;
}

__attribute__((target("sse4.2"))) uint32_t Sse42(const char* p, size_t n, uint32_t c) {
  uint64_t wide = c;
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  c = static_cast<uint32_t>(wide);
  for (; n > 0; ++p, --n) c = _mm_crc32_u8(c, static_cast<uint8_t>(*p));
  return c;
}

}  // namespace

uint32_t Crc32c(absl::string_view bytes, uint32_t crc) {
  static const bool kSse42 = __builtin_cpu_supports("sse4.2");
  return ~(kSse42 ? Sse42 : Portable)(bytes.data(), bytes.size(), ~crc);
}

}  // namespace starling
