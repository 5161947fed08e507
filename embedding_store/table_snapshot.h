// The writing of a snapshot: rows of one instant stream into their files while
// calls go on. Internal to the table.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "embedding_store/cold_tier.h"
#include "embedding_store/embedding_table.h"
#include "embedding_store/row_file.h"
#include "embedding_store/table_stripe.h"

namespace starling {

// What was true at the instant and is not kept anywhere else.
struct SnapshotInstant {
  uint32_t epoch = 0;
  uint64_t steps = 0;
  std::string admission;
  std::vector<uint64_t> tombstones;
  std::shared_ptr<ColdTier::View> cold;  // Null: no cold rows.
};

// Extras of a snapshot's first file.
inline constexpr char kAdmissionExtra[] = "admission";  // u32 stripes; (u64 length, state) of each.
inline constexpr char kCountersExtra[] = "counters";    // u64 dense steps, u64 epoch.

class SnapshotTask : public TableSnapshot {
 public:
  // `done` is called once, when no row needs copying aside any more, whether
  // the files were written or not. All pointers outlive this object.
  SnapshotTask(TableCore* core, std::span<const std::unique_ptr<TableStripe>> stripes,
               SnapshotInstant instant, const std::string& path, const SnapshotOptions& options,
               std::function<void()> done);
  ~SnapshotTask() override;

  absl::StatusOr<std::vector<FileSetEntry>> Wait() override;
  void Hurry() override { hurry_ = true; }
  uint32_t epoch() const override { return instant_.epoch; }

 private:
  absl::Status Write();
  absl::Status WriteMemory(RowFileWriter* writer);
  absl::Status WriteCold();
  absl::Status WriteBlock(RowBlock* rows, RowFileWriter* writer);  // And empties it.
  // Waits until what was written is due; calls `meanwhile` now and then.
  absl::Status Pace(const std::function<absl::Status()>& meanwhile);
  absl::StatusOr<std::unique_ptr<RowFileWriter>> NewFile(const std::string& path);

  TableCore& core_;
  const std::span<const std::unique_ptr<TableStripe>> stripes_;
  SnapshotInstant instant_;
  const std::string path_;
  const SnapshotOptions options_;
  const std::function<void()> done_;
  int64_t written_ = 0;  // Bytes of rows.
  double started_ = 0;
  std::vector<FileSetEntry> files_;
  absl::Status status_;
  std::atomic<bool> cancelled_{false}, hurry_{false};
  std::thread thread_;  // Last: it uses the others.
};

}  // namespace starling
