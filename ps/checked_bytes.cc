#include "ps/checked_bytes.h"

#include <bit>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/crc32c.h"

namespace starling {
namespace {

constexpr size_t kHeaderBytes = 12;  // Magic, version.
constexpr size_t kCrcBytes = 4;
constexpr uint32_t kVersionPlain = 1;

uint32_t Rotated(uint32_t crc) { return std::rotl(crc, 15); }

}  // namespace

CheckedWriter::CheckedWriter(absl::string_view magic, uint32_t version) : bytes_(magic) {
  Put(version);
}

std::string CheckedWriter::Finish() && {
  Put(Rotated(Crc32c(bytes_)));
  return std::move(bytes_);
}

absl::StatusOr<absl::string_view> OpenChecked(absl::string_view bytes, absl::string_view magic,
                                              uint32_t version, const std::string& file) {
  if (bytes.size() < kHeaderBytes + kCrcBytes || !absl::StartsWith(bytes, magic)) {
    return absl::DataLossError(
        absl::StrCat(file, ": not a ", magic, " file (", bytes.size(), " bytes)"));
  }
  absl::string_view before = bytes.substr(0, bytes.size() - kCrcBytes);
  uint32_t crc = 0, found = 0;
  std::memcpy(&crc, bytes.data() + before.size(), sizeof(crc));
  std::memcpy(&found, bytes.data() + magic.size(), sizeof(found));
  const uint32_t computed = Crc32c(before);
  if (crc != (found == kVersionPlain ? computed : Rotated(computed)))
    return absl::DataLossError(absl::StrCat(file, ": checksum does not match"));
  if (found < kVersionPlain || found > version) {
    return absl::DataLossError(
        absl::StrCat(file, ": version ", found, ", but this program reads up to ", version));
  }
  return before.substr(kHeaderBytes);
}

absl::string_view CheckedReader::GetBytes(uint64_t n) {
  if (!ok_ || n > rest_.size()) {
    ok_ = false;
    return {};
  }
  absl::string_view bytes = rest_.substr(0, n);
  rest_.remove_prefix(n);
  return bytes;
}

absl::Status CheckedReader::Finish() const {
  if (!ok_) return absl::DataLossError("ends too early");
  if (!rest_.empty()) return absl::DataLossError(absl::StrCat(rest_.size(), " bytes too many"));
  return absl::OkStatus();
}

}  // namespace starling
