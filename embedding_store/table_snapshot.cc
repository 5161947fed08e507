#include "embedding_store/table_snapshot.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "base/status.h"
#include "base/sync_point.h"
#include "base/wrong.h"
#include "embedding_store/row_file_format.h"

namespace starling {
namespace {

constexpr int64_t kSliceSlots = 512;  // Looked at under a stripe's lock.

double Now() { return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()); }

// A wrong variant: rows are copied aside because a step is coming. Had their state been
// read later than their weights, it would be that after the step: of `count`, one more.
[[maybe_unused]] void MakeSlotsLater(const RowLayout& layout, const RowBlock& rows) {
  if (rows.empty()) return;
  const size_t stride = rows.bytes().size() / rows.rows();
  char* const data = const_cast<char*>(rows.bytes().data());
  for (size_t end = stride; end <= rows.bytes().size(); end += stride) {
    auto* state = reinterpret_cast<float*>(data + end);
    for (int i = 1; i <= layout.state_size(); ++i) state[-i] += 1;
  }
}

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
  RowBlock rows(core_.layout, RowBlock::kBytesMax), aside;
  // Without regard to the pace: callers wait when these are too many.
  auto write_aside = [&]() -> absl::Status {
    while (core_.aside.Take(&aside)) {
      if (STARLING_WRONG("slots_later")) MakeSlotsLater(core_.layout, aside);
      if (!STARLING_WRONG("aside_lost")) RETURN_IF_ERROR(WriteBlock(&aside, writer));
    }
    return absl::OkStatus();
  };
  for (const auto& stripe : stripes_) {
    for (bool more = true; more;) {
      if (rows.full()) {
        RETURN_IF_ERROR(WriteBlock(&rows, writer));
        RETURN_IF_ERROR(Pace(write_aside));
      }
      more = stripe->CopyRows(kSliceSlots, &rows);
      STARLING_SYNC_POINT("store.snapshot.slice");
      RETURN_IF_ERROR(write_aside());
    }
  }
  RETURN_IF_ERROR(WriteBlock(&rows, writer));
  return Pace(write_aside);
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
    RowBlock rows(core_.layout, RowBlock::kBytesMax);
    for (; cursor->Valid(); cursor->Next()) {
      if (cursor->row().epoch < options_.since) continue;
      rows.Add(core_.layout, cursor->row());
      if (!rows.full()) continue;
      RETURN_IF_ERROR(WriteBlock(&rows, writer.get()));
      RETURN_IF_ERROR(Pace([] { return absl::OkStatus(); }));
    }
    RETURN_IF_ERROR(cursor->status());
    RETURN_IF_ERROR(WriteBlock(&rows, writer.get()));
  }
  STARLING_SYNC_POINT("store.snapshot.cold");
  ASSIGN_OR_RETURN(files_.emplace_back(), writer->Finish());
  return absl::OkStatus();
}

absl::Status SnapshotTask::WriteBlock(RowBlock* rows, RowFileWriter* writer) {
  written_ += static_cast<int64_t>(rows->bytes().size());
  const absl::Status status = writer->AppendBlock(*rows);
  rows->Clear();
  return status;
}

absl::Status SnapshotTask::Pace(const std::function<absl::Status()>& meanwhile) {
  for (;;) {
    if (cancelled_) return absl::CancelledError(absl::StrCat(path_, ": snapshot given up"));
    RETURN_IF_ERROR(meanwhile());
    if (options_.bytes_per_second_max <= 0 || hurry_) return absl::OkStatus();
    const double due =
        static_cast<double>(written_) / static_cast<double>(options_.bytes_per_second_max);
    const double ahead = due - (Now() - started_);
    if (ahead <= 0) return absl::OkStatus();
    absl::SleepFor(absl::Seconds(std::min(ahead, 0.005)));
  }
}

}  // namespace starling
