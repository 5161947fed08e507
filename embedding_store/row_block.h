// RowBlock: rows of one table in the form they have in a row file, on their way
// into one. Bytes are written once, straight from the slab, and then only
// checksummed and handed to the file.
//
// Thread safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "embedding_store/row_file_format.h"
#include "embedding_store/row_layout.h"
#include "embedding_store/row_slab.h"

namespace starling {

class RowBlock {
 public:
  // As much as stays in a core's cache until it is written.
  static constexpr size_t kBytesMax = 256 << 10;

  RowBlock() = default;  // Holds nothing, and is full.
  // For rows of `layout`: about `bytes` of them, one at least.
  RowBlock(const RowLayout& layout, size_t bytes)
      : row_bytes_(BytesOf(layout)),
        capacity_(std::max<size_t>(bytes / row_bytes_, 1)),
        data_(std::make_unique_for_overwrite<char[]>(capacity_ * row_bytes_)) {}

  bool full() const { return rows_ == capacity_; }
  bool empty() const { return rows_ == 0; }
  size_t rows() const { return rows_; }
  absl::string_view bytes() const { return {data_.get(), rows_ * row_bytes_}; }
  void Clear() { rows_ = 0; }

  // REQUIRES: it is not full.
  void Add(const RowLayout& layout, const RowHeader& row) {
    char* const at = data_.get() + rows_ * row_bytes_;
    row_file::PutRowPrefix(row.id, row.event_time, row.frequency(), row.epoch, /*flags=*/0, at);
    layout.Unpack(row.body(), {reinterpret_cast<float*>(at + row_file::kRowPrefix),
                               static_cast<size_t>(layout.floats())});
    ++rows_;
  }

 private:
  static size_t BytesOf(const RowLayout& layout) {
    return row_file::kRowPrefix + static_cast<size_t>(layout.floats()) * sizeof(float);
  }

  size_t row_bytes_ = 0;
  size_t capacity_ = 0;  // Rows, as the next.
  size_t rows_ = 0;
  std::unique_ptr<char[]> data_;
};

}  // namespace starling
