// The bytes of a row file, shared by its writer and its reader; the byte-by-byte
// description is in docs/formats.md. All integers are little-endian.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "base/crc32c.h"

namespace starling::row_file {

static_assert(std::endian::native == std::endian::little);

inline constexpr absl::string_view kMagic = "STARROWS";
inline constexpr absl::string_view kEndMagic = "STARDONE";
inline constexpr uint32_t kVersion = 1;

inline constexpr uint32_t kBlockTag = 0x4B434C42;   // "BLCK"
inline constexpr uint32_t kExtraTag = 0x52545845;   // "EXTR"
inline constexpr uint32_t kFooterTag = 0x544F4F46;  // "FOOT"

inline constexpr uint32_t kBlockBytes = 1 << 20;     // A block is closed once it is this long.
inline constexpr uint32_t kBlockBytesMax = 2 << 20;  // No block of ours is longer.
inline constexpr uint32_t kHeaderBytesMax = 16 << 20;
inline constexpr uint32_t kRowPrefix = 28;  // id, event time, frequency, epoch, flags.
inline constexpr uint32_t kTombstone = 1;   // In a row's flags.
static_assert(kRowPrefix % sizeof(float) == 0);

inline constexpr size_t kHeaderPrefix = 16;  // magic, version, length of the proto.
inline constexpr size_t kBlockPrefix = 16;   // tag, rows, bytes, CRC.
inline constexpr size_t kExtraPrefix = 20;   // tag, length of the name, bytes (u64), CRC.
inline constexpr size_t kFooterBytes = 36;   // tag, rows, blocks, extras, CRC, end magic.

template <typename T>
void Put(std::string* out, T value) {
  static_assert(std::is_arithmetic_v<T>);
  out->append(reinterpret_cast<const char*>(&value), sizeof(T));
}
inline void PutRowPrefix(uint64_t id, int64_t event_time, uint32_t frequency, uint32_t epoch,
                         uint32_t flags, char* out) {
  std::memcpy(out, &id, 8);
  std::memcpy(out + 8, &event_time, 8);
  std::memcpy(out + 16, &frequency, 4);
  std::memcpy(out + 20, &epoch, 4);
  std::memcpy(out + 24, &flags, 4);
}
template <typename T>
T Get(const char* p) {
  static_assert(std::is_arithmetic_v<T>);
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

}  // namespace starling::row_file
