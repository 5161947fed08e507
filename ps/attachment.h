// Arrays of numbers in an RPC's attachment; ps.proto says which. Little-endian
// machines only, as all of Starling.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace starling {

template <typename T>
void AppendArray(std::span<const T> values, std::string* attachment) {
  attachment->append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

// Gives out arrays from the front, in place. The attachment must outlive them
// and be aligned, as a std::string's memory is.
class AttachmentReader {
 public:
  explicit AttachmentReader(const std::string& attachment)
      : next_(attachment.data()), left_(attachment.size()) {}

  // InvalidArgument if n is negative or more than is left.
  template <typename T>
  absl::Status Take(int64_t n, std::span<const T>* values) {
    if (n < 0 || static_cast<uint64_t>(n) > left_ / sizeof(T)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the attachment has ", left_, " bytes left for ", n, " numbers"));
    }
    *values = {reinterpret_cast<const T*>(next_), static_cast<size_t>(n)};
    next_ += values->size_bytes();
    left_ -= values->size_bytes();
    return absl::OkStatus();
  }
  size_t left() const { return left_; }
  absl::Status Finish() const {
    if (left_ == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the attachment has ", left_, " bytes too many"));
  }

 private:
  const char* next_;
  size_t left_;
};

}  // namespace starling
