#include "base/crc32c.h"

#include <nmmintrin.h>

#include <array>
#include <cstring>
#include <string>

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

// ---- With the instruction: three lanes, since one result takes three cycles ----

constexpr size_t kLane = 2048;

// What kLane bytes of zeros make of a checksum, by each of its four bytes.
using Shift = std::array<std::array<uint32_t, 256>, 4>;

Shift MakeShift() {
  const std::string zeros(kLane, '\0');
  std::array<uint32_t, 32> bits;
  for (int i = 0; i < 32; ++i) bits[i] = Portable(zeros.data(), kLane, 1u << i);
  Shift shift{};
  for (int byte = 0; byte < 4; ++byte) {
    for (uint32_t value = 0; value < 256; ++value) {
      for (int i = 0; i < 8; ++i) {
        if (value >> i & 1) shift[byte][value] ^= bits[8 * byte + i];
      }
    }
  }
  return shift;
}

uint32_t Shifted(const Shift& shift, uint32_t c) {
  return shift[0][c & 0xFF] ^ shift[1][c >> 8 & 0xFF] ^ shift[2][c >> 16 & 0xFF] ^
         shift[3][c >> 24];
}

__attribute__((target("sse4.2"))) uint32_t ThreeLanes(const char* p, uint32_t c) {
  static const Shift shift = MakeShift();
  uint64_t a = c, b = 0, d = 0;
  for (const char* end = p + kLane; p < end; p += 8) {
    uint64_t words[3];
    std::memcpy(&words[0], p, 8);
    std::memcpy(&words[1], p + kLane, 8);
    std::memcpy(&words[2], p + 2 * kLane, 8);
    a = _mm_crc32_u64(a, words[0]);
    b = _mm_crc32_u64(b, words[1]);
    d = _mm_crc32_u64(d, words[2]);
  }
  const uint32_t ab = Shifted(shift, static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b);
  return Shifted(shift, ab) ^ static_cast<uint32_t>(d);
}

__attribute__((target("sse4.2"))) uint32_t Sse42(const char* p, size_t n, uint32_t c) {
  for (; n >= 3 * kLane; p += 3 * kLane, n -= 3 * kLane) c = ThreeLanes(p, c);
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

// ---- Polynomials modulo Castagnoli's, the lowest power in the highest bit ----

constexpr uint32_t kOne = 1u << 31;

constexpr uint32_t TimesX(uint32_t a) { return (a >> 1) ^ (0x82F63B78u & (0u - (a & 1))); }

constexpr uint32_t Times(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1, b = TimesX(b)) {
    if ((a & bit) != 0) product ^= b;
  }
  return product;
}

}  // namespace

uint32_t JoinCrc32c(uint32_t crc, uint32_t crc_after, uint64_t bytes_after) {
  // Each byte behind it multiplies a checksum by x to the eighth; here with 2 to the i of them.
  uint32_t power = kOne;
  for (int i = 0; i < 8; ++i) power = TimesX(power);
  for (; bytes_after != 0; bytes_after >>= 1, power = Times(power, power)) {
    if ((bytes_after & 1) != 0) crc = Times(crc, power);
  }
  return crc ^ crc_after;
}

uint32_t Crc32c(absl::string_view bytes, uint32_t crc) {
  static const bool kSse42 = __builtin_cpu_supports("sse4.2");
  return ~(kSse42 ? Sse42 : Portable)(bytes.data(), bytes.size(), ~crc);
}

}  // namespace starling
