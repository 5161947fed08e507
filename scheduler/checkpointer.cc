#include "scheduler/checkpointer.h"

#include <filesystem>
#include <utility>

#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "base/sync_point.h"
#include "base/wrong.h"

namespace starling {

Checkpointer::Checkpointer(const Options& options, CutSource* source)
    : options_(options), source_(source) {}

Checkpointer::~Checkpointer() { Wait().IgnoreError(); }

absl::StatusOr<std::unique_ptr<StoreCut>> Checkpointer::StartCut(const std::string& dir,
                                                                 CheckpointInfo* info) {
  next_ = {.dir = dir, .chain = 1};
  CutOptions options{.bytes_per_second_max = options_.bytes_per_second_max};
  if (newest_.chain > 0 && newest_.chain < options_.full_every) {
    options.since = newest_.epochs;
    if (STARLING_WRONG("since_too_late")) {
      for (uint32_t& epoch : options.since) ++epoch;
    }
    absl::StatusOr<std::unique_ptr<StoreCut>> cut = source_->StartCut(dir, options);
    if (cut.ok()) {
      next_.chain = newest_.chain + 1;
      info->set_base(std::filesystem::path(newest_.dir).filename().string());
      info->set_base_crc32c(newest_.manifest_crc32c);
    }
    // Too many rows went for their tombstones to be known: a full one needs none.
    if (!absl::IsFailedPrecondition(cut.status())) return cut;
    options.since.clear();
  }
  return source_->StartCut(dir, options);
}

absl::Status Checkpointer::Start(CheckpointInfo info, const Retention& retention) {
  RETURN_IF_ERROR(Wait());
  STARLING_SYNC_POINT("checkpointer:start");
  absl::StatusOr<std::string> dir = NewCheckpointDir(options_.root, info.state().step());
  if (!dir.ok()) return Annotate(dir.status(), "checkpoint not written");
  absl::StatusOr<std::unique_ptr<StoreCut>> cut = StartCut(*dir, &info);
  if (!cut.ok()) {
    RemoveAll(*dir).IgnoreError();
    return Annotate(cut.status(), "checkpoint not written");
  }
  cut_ = *std::move(cut);
  next_.epochs = cut_->epochs();
  done_ = false;
  STARLING_SYNC_POINT("checkpointer:started");
  thread_ = std::thread([this, info = std::move(info), retention] { Write(info, retention); });
  return absl::OkStatus();
}

void Checkpointer::Write(const CheckpointInfo& info, const Retention& retention) {
  std::unique_ptr<StoreCut> late;
  if (STARLING_WRONG("rows_later_than_position")) {
    cut_->Wait().IgnoreError();
    absl::SleepFor(absl::Milliseconds(20));
    late = *source_->StartCut(next_.dir, {});
  }
  StoreCut* const cut = late != nullptr ? late.get() : cut_.get();
  status_ = FinishCheckpoint(next_.dir, info, retention, [cut] { return cut->Wait(); });
  if (status_.ok()) {
    absl::StatusOr<uint32_t> crc = ManifestChecksum(next_.dir);
    // Not readable again: complete, but nothing will rest on it.
    if (crc.ok()) next_.manifest_crc32c = *crc;
    if (!crc.ok()) next_.chain = options_.full_every;
  }
  STARLING_SYNC_POINT("checkpointer:written");
  done_ = true;
}

absl::Status Checkpointer::Poll() {
  if (!thread_.joinable() || !done_.load()) return absl::OkStatus();
  return Wait();
}

absl::Status Checkpointer::Wait() {
  if (!thread_.joinable()) return absl::OkStatus();
  cut_->Hurry();
  thread_.join();
  cut_.reset();
  RETURN_IF_ERROR(std::exchange(status_, absl::OkStatus()));
  newest_ = std::move(next_);
  source_->ForgetBefore(newest_.epochs);
  return absl::OkStatus();
}

}  // namespace starling
