#include "serving/read_only_table.h"

#include <algorithm>
#include <limits>

#include "base/random.h"
#include "base/status.h"
#include "embedding_store/row_file.h"

namespace starling {

absl::StatusOr<std::unique_ptr<ReadOnlyTable>> ReadOnlyTable::Create(int64_t rows, int width) {
  if (rows > std::numeric_limits<uint32_t>::max()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(rows, " rows; a served table holds at most 4294967295"));
  }
  return std::unique_ptr<ReadOnlyTable>(new ReadOnlyTable(rows, width));
}

// Buckets are filled to four fifths: few ids then leave their home.
ReadOnlyTable::ReadOnlyTable(int64_t rows, int width)
    : width_(width), capacity_(rows), buckets_(rows / (kSlots - 1) + 1) {
  weights_.reserve(rows * width);
}

absl::StatusOr<std::unique_ptr<ReadOnlyTable>> ReadOnlyTable::Load(const std::string& path,
                                                                   int width) {
  ASSIGN_OR_RETURN(auto reader, RowFileReader::Open(path));
  if (reader->header().width != width || reader->header().state_size != 0) {
    return absl::DataLossError(absl::StrCat(path, ": rows of ", reader->header().width,
                                            " weights and ", reader->header().state_size,
                                            " of state; the bundle's specs say ", width, " and 0"));
  }
  ASSIGN_OR_RETURN(auto table, Create(reader->rows(), width));
  RETURN_IF_ERROR(reader->ReadAll(
      [&](const RowRecord& row) {
        if (row.tombstone || !table->Add(row.id, row.floats)) {
          return absl::DataLossError(absl::StrCat(
              path, ": id ", row.id, row.tombstone ? " is a tombstone" : " stands there twice"));
        }
        return absl::OkStatus();
      },
      nullptr));
  return table;
}

size_t ReadOnlyTable::Home(uint64_t id) const {
  return static_cast<size_t>((static_cast<unsigned __int128>(Mix64(id)) * buckets_.size()) >> 64);
}

int64_t ReadOnlyTable::Find(uint64_t id) const {
  for (size_t b = Home(id);; b = b + 1 == buckets_.size() ? 0 : b + 1) {
    const Bucket& bucket = buckets_[b];
    for (uint32_t s = 0; s < bucket.used; ++s) {
      if (bucket.ids[s] == id) return bucket.rows[s];
    }
    if (bucket.used < kSlots) return kAbsent;
  }
}

bool ReadOnlyTable::Add(uint64_t id, std::span<const float> weights) {
  if (rows_ == capacity_ || Find(id) != kAbsent) return false;
  size_t b = Home(id);
  while (buckets_[b].used == kSlots) b = b + 1 == buckets_.size() ? 0 : b + 1;
  Bucket& bucket = buckets_[b];
  bucket.ids[bucket.used] = id;
  bucket.rows[bucket.used++] = static_cast<uint32_t>(rows_++);
  weights_.insert(weights_.end(), weights.begin(), weights.begin() + width_);
  return true;
}

// A group of ids goes through three stages, so that the misses of one stage
// are under way together: fetch buckets, find rows and fetch them, copy.
absl::Status ReadOnlyTable::Lookup(std::span<const uint64_t> ids, std::span<float> weights) const {
  constexpr size_t kGroup = 32;
  int64_t found[kGroup];
  for (size_t begin = 0; begin < ids.size(); begin += kGroup) {
    size_t n = std::min(kGroup, ids.size() - begin);
    for (size_t i = 0; i < n; ++i) __builtin_prefetch(&buckets_[Home(ids[begin + i])]);
    for (size_t i = 0; i < n; ++i) {
      found[i] = Find(ids[begin + i]);
      if (found[i] != kAbsent) __builtin_prefetch(weights_.data() + found[i] * width_);
    }
    for (size_t i = 0; i < n; ++i) {
      float* out = weights.data() + (begin + i) * width_;
      if (found[i] == kAbsent) {
        std::fill_n(out, width_, 0.0f);
      } else {
        std::copy_n(weights_.data() + found[i] * width_, width_, out);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace starling
