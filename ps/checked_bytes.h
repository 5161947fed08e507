// CheckedBytes: small files as magic, version, payload, CRC32C of all before,
// rotated. Little-endian throughout. For the dense parameters and the applied names.
//
// Bytes and their plain CRC32C behind them have one and the same CRC32C, whatever
// the bytes are: by a manifest's, a file of version 1, which had it so, is not
// told from another of its length. Such files are still read.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace starling {

class CheckedWriter {
 public:
  // REQUIRES: magic has 8 bytes; version is 2 or higher.
  CheckedWriter(absl::string_view magic, uint32_t version);
  template <typename T>
  void Put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    PutBytes({reinterpret_cast<const char*>(&value), sizeof(T)});
  }
  void PutBytes(absl::string_view bytes) { bytes_.append(bytes.data(), bytes.size()); }
  std::string Finish() &&;  // With the checksum.

 private:
  std::string bytes_;
};

// The payload. DataLoss naming `file` if magic or checksum is wrong, or the version
// a higher one.
absl::StatusOr<absl::string_view> OpenChecked(absl::string_view bytes, absl::string_view magic,
                                              uint32_t version, const std::string& file);

// Reads a payload from front to back. A read past the end gives zeros and
// makes the reader not ok; it never reads outside.
class CheckedReader {
 public:
  explicit CheckedReader(absl::string_view payload) : rest_(payload) {}
  bool ok() const { return ok_; }
  template <typename T>
  T Get() {
    T value{};
    absl::string_view bytes = GetBytes(sizeof(T));
    if (ok_) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  absl::string_view GetBytes(uint64_t n);
  absl::Status Finish() const;  // DataLoss unless all was read, and no more.

 private:
  absl::string_view rest_;
  bool ok_ = true;
};

}  // namespace starling
