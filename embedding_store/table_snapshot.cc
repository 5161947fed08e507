#include "embedding_store/table_snapshot.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "base/status.h"
#include "base/sync_point.h"
#include "base/wrong.h"
#include "embedding_store/row_file_format.h"

namespace starling {
namespace {

constexpr int64_t kSliceSlots = 512;       // Looked at under a stripe's lock.
constexpr int64_t kPaceBytes = 256 << 10;  // Written between two looks at the clock.

double Now() { return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()); }

}  // namespace

SnapshotTask::SnapshotTask(TableCore* core, std::span<const std::unique_ptr<TableStripe>> stripes,
                           SnapshotInstant instant, const std::string& path,
                           const SnapshotOptions& options, std::function<void()> done)
    : core_(*core),
      stripes_(stripes),
      instant_(std::move(instant)),
      path_(path),
      options_(options),
      done_(std::move(done)),
      floats_(core->layout.floats()),
      started_(Now()),
      thread_([this] {
        status_ = Write();
        instant_.cold.reset();
        done_();
      }) {}

SnapshotTask::~SnapshotTask() {
  cancelled_ = true;
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<std::vector<FileSetEntry>> SnapshotTask::Wait() {
  if (thread_.joinable()) thread_.join();
  RETURN_IF_ERROR(status_);
  return files_;
}

absl::StatusOr<std::unique_ptr<RowFileWriter>> SnapshotTask::NewFile(const std::string& path) {
  RowFileHeader header{core_.spec, core_.layout.width(), core_.layout.state_size()};
  header.sorted = false;
  return RowFileWriter::Create(path, header);
}

absl::Status SnapshotTask::Write() {
  STARLING_SYNC_POINT("store.snapshot.start");
  ASSIGN_OR_RETURN(std::unique_ptr<RowFileWriter> writer, NewFile(path_));
  RETURN_IF_ERROR(WriteMemory(writer.get()));
  STARLING_SYNC_POINT("store.snapshot.memory");
  std::string counters;
  row_file::Put<uint64_t>(&counters, instant_.steps);
  row_file::Put<uint64_t>(&counters, instant_.epoch);
  RETURN_IF_ERROR(writer->AddExtra(kAdmissionExtra, instant_.admission));
  RETURN_IF_ERROR(writer->AddExtra(kCountersExtra, counters));
  ASSIGN_OR_RETURN(FileSetEntry memory, writer->Finish());
  if (instant_.cold != nullptr || !instant_.tombstones.empty()) RETURN_IF_ERROR(WriteCold());
  files_.push_back(std::move(memory));
  STARLING_SYNC_POINT("store.snapshot.end");
  return absl::OkStatus();
}

absl::Status SnapshotTask::WriteMemory(RowFileWriter* writer) {
  std::string rows, aside;
  // Without regard to the pace: callers wait when these are too many.
  auto write_aside = [&]() -> absl::Status {
    while (core_.aside.Take(&aside)) {
      if (!STARLING_WRONG("aside_lost")) RETURN_IF_ERROR(AppendRows(aside, writer));
    }
    return absl::OkStatus();
  };
  for (const auto& stripe : stripes_) {
    for (bool more = true; more;) {
      rows.clear();
      more = stripe->CopyRows(kSliceSlots, &rows);
      STARLING_SYNC_POINT("store.snapshot.slice");
      RETURN_IF_ERROR(AppendRows(rows, writer));
      RETURN_IF_ERROR(write_aside());
      RETURN_IF_ERROR(Pace(static_cast<int64_t>(rows.size()), write_aside));
    }
  }
  return write_aside();  // No stripe copies aside any more.
}

absl::Status SnapshotTask::WriteCold() {
  const std::string path = path_ + kColdSuffix;
  ASSIGN_OR_RETURN(std::unique_ptr<RowFileWriter> writer, NewFile(path));
  // Before all rows of this snapshot: an id may have gone and come again.
  for (uint64_t id : instant_.tombstones) {
    if (STARLING_WRONG("tombstone_lost")) continue;
    RETURN_IF_ERROR(writer->Append({.id = id, .tombstone = true}));
  }
  if (instant_.cold != nullptr) {
    auto cursor = core_.cold->NewCursor(instant_.cold, options_.since);
    for (; cursor->Valid(); cursor->Next()) {
      RETURN_IF_ERROR(AppendRow(cursor->row(), writer.get()));
      RETURN_IF_ERROR(Pace(core_.layout.body_bytes(), [] { return absl::OkStatus(); }));
    }
    RETURN_IF_ERROR(cursor->status());
  }
  STARLING_SYNC_POINT("store.snapshot.cold");
  ASSIGN_OR_RETURN(files_.emplace_back(), writer->Finish());
  return absl::OkStatus();
}

absl::Status SnapshotTask::AppendRows(const std::string& rows, RowFileWriter* writer) {
  const size_t stride = sizeof(RowHeader) + core_.layout.body_bytes();
  for (size_t at = 0; at < rows.size(); at += stride) {
    RETURN_IF_ERROR(AppendRow(*reinterpret_cast<const RowHeader*>(&rows[at]), writer));
  }
  return absl::OkStatus();
}

absl::Status SnapshotTask::AppendRow(const RowHeader& row, RowFileWriter* writer) {
  if (row.epoch < options_.since) return absl::OkStatus();
  core_.layout.Unpack(row.body(), floats_);
  return writer->Append({.id = row.id, .meta = row.meta(), .floats = floats_});
}

absl::Status SnapshotTask::Pace(int64_t bytes, const std::function<absl::Status()>& meanwhile) {
  const int64_t before = written_;
  written_ += bytes;
  if (before / kPaceBytes == written_ / kPaceBytes) return absl::OkStatus();
  for (;;) {
    if (cancelled_) return absl::CancelledError(absl::StrCat(path_, ": snapshot given up"));
    if (options_.bytes_per_second_max <= 0 || hurry_) return absl::OkStatus();
    const double due =
        static_cast<double>(written_) / static_cast<double>(options_.bytes_per_second_max);
    const double ahead = due - (Now() - started_);
    if (ahead <= 0) return absl::OkStatus();
    absl::SleepFor(absl::Seconds(std::min(ahead, 0.005)));
    RETURN_IF_ERROR(meanwhile());
  }
}

}  // namespace starling
