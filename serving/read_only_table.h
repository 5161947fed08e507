// ReadOnlyTable: the rows of one table of a bundle, in memory.
//
// Weights stand in one float array by row number. The index from id to row
// number is a closed hash table of buckets, one cache line each: five ids and
// their row numbers. An id whose bucket is full stands in the next that is not.
// About 16 bytes a row beside its weights.
//
// Filled by one thread, then const: any number of threads may look up at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "embedding_store/row_source.h"

namespace starling {

class ReadOnlyTable : public RowSource {
 public:
  // Room for `rows` rows. ResourceExhausted beyond 2^32 - 1.
  static absl::StatusOr<std::unique_ptr<ReadOnlyTable>> Create(int64_t rows, int width);
  // The rows of a row file, which must hold weights alone, `width` a row.
  // DataLoss, naming the file, if it does not.
  static absl::StatusOr<std::unique_ptr<ReadOnlyTable>> Load(const std::string& path, int width);

  // False if the id is there already or all room is taken; the table is then unchanged.
  bool Add(uint64_t id, std::span<const float> weights);

  absl::Status Lookup(std::span<const uint64_t> ids, std::span<float> weights) const override;
  int width() const override { return width_; }
  int64_t rows() const { return rows_; }

 private:
  static constexpr int kSlots = 5;
  struct alignas(64) Bucket {
    uint64_t ids[kSlots];
    uint32_t rows[kSlots];
    uint32_t used = 0;  // Slots [0, used) hold an id.
  };
  static_assert(sizeof(Bucket) == 64);
  static constexpr int64_t kAbsent = -1;

  ReadOnlyTable(int64_t rows, int width);
  size_t Home(uint64_t id) const;
  int64_t Find(uint64_t id) const;  // Row number or kAbsent.

  const int width_;
  const int64_t capacity_;
  int64_t rows_ = 0;
  std::vector<Bucket> buckets_;  // At least one is never full, so that a search ends.
  std::vector<float> weights_;   // (rows, width)
};

}  // namespace starling
