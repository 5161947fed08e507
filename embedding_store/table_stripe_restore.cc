// TableStripe: rows that come from a file.
#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "embedding_store/table_stripe.h"

namespace starling {

// Of records that are about to be set, which ones the cold tier holds too. All are asked
// for at once; an answer is good until the id's version changes.
class TableStripe::ColdCopies {
 public:
  // Asks for those that are not in memory.
  absl::Status Find(TableStripe* stripe, std::span<const RowRecord> records)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(stripe->mu_) {
    answers_.clear();
    if (stripe->rows_cold_ == 0) return absl::OkStatus();
    std::vector<uint64_t> ids;
    answers_.resize(records.size());
    for (size_t i = 0; i < records.size(); ++i) {
      const uint64_t id = records[i].id;
      if (records[i].tombstone || stripe->FindSlot(id) != BucketIndex::kNone) continue;
      answers_[i] = {static_cast<int64_t>(ids.size()), stripe->Version(id)};
      ids.push_back(id);
    }
    return stripe->core_.cold->MultiGet(ids, &rows_);
  }
  // Whether the i-th of them, `id`, which is not in memory now, is in the cold tier.
  absl::StatusOr<bool> Has(TableStripe* stripe, size_t i, uint64_t id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(stripe->mu_) {
    if (stripe->rows_cold_ == 0) return false;
    if (i < answers_.size() && answers_[i].at >= 0 && answers_[i].version == stripe->Version(id)) {
      return rows_.row(answers_[i].at) != nullptr;
    }
    ColdRows one;
    RETURN_IF_ERROR(stripe->core_.cold->MultiGet({&id, 1}, &one));
    return one.row(0) != nullptr;
  }

 private:
  struct Answer {
    int64_t at = -1;  // In rows_; -1: it was not asked for.
    uint32_t version = 0;
  };
  std::vector<Answer> answers_;  // By record.
  ColdRows rows_;
};

void TableStripe::ExpectRows(int64_t rows) {
  absl::MutexLock lock(&mu_);
  // A stripe has not exactly its part: about so many more or less.
  const auto spread = static_cast<int64_t>(2 * std::sqrt(static_cast<double>(rows)));
  rows_.ExpectRows(std::min(rows - spread, core_.share * 3 / 4 / rows_.stride()));
  if (rows_.slots() > 0) return;
  // Now, while there is no row to enter anew. Where memory is short the index must not be larger
  // than it would have become by itself.
  const bool short_of_room = rows * rows_.stride() > core_.share * 7 / 8;
  const int64_t expected = short_of_room
                               ? std::min(rows - rows / 16, core_.share * 3 / 4 / rows_.stride())
                               : rows + spread;
  while (index_.room() < expected && GrowIndex()) continue;
}

void TableStripe::TakeMemory(int64_t rows) {
  ExpectRows(rows);
  absl::MutexLock lock(&mu_);
  while (rows_.free_slots() < rows && GrowRows()) continue;
}

absl::Status TableStripe::Put(std::span<const RowRecord> records) {
  constexpr size_t kAhead = 8;  // Index lines: the processor would not guess where entries go.
  constexpr size_t kAsk = 256;  // Fewer than leave memory at once, which outdates answers.
  absl::MutexLock lock(&mu_);
  ColdCopies cold;
  for (size_t i = 0; i < records.size(); ++i) {
    if (i % kAsk == 0) {
      RETURN_IF_ERROR(cold.Find(this, records.subspan(i, std::min(kAsk, records.size() - i))));
    }
    const uint64_t soon = records[std::min(i + kAhead, records.size() - 1)].id;
    PrefetchLine(index_.view().HomeLine(BucketIndex::HashOf(soon)));
    const RowRecord& record = records[i];
    if (record.tombstone) {
      RETURN_IF_ERROR(EraseLocked({&record.id, 1}));
      continue;
    }
    RETURN_IF_ERROR(Reserve());
    uint32_t slot = FindSlot(record.id);
    if (slot == BucketIndex::kNone) {
      ASSIGN_OR_RETURN(const bool in_cold, cold.Has(this, i % kAsk, record.id));
      slot = NewSlot(record.id);
      if (in_cold) {  // The older copy is outdated from here on.
        rows_.row(slot).Set(kRowInCold);
        --rows_cold_;
      }
    }
    RowHeader& row = rows_.row(slot);
    row.set_meta(record.meta);
    row.Set(kRowDirty);
    core_.layout.Pack(record.floats, row.body());
  }
  rows_.MakeHuge();
  return absl::OkStatus();
}

}  // namespace starling
