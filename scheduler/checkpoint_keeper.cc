#include "scheduler/checkpoint_keeper.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/stages.h"
#include "base/status.h"

namespace starling {
namespace {

double Seconds() { return static_cast<double>(absl::GetCurrentTimeNanos()) * 1e-9; }

}  // namespace

CheckpointKeeper::CheckpointKeeper(const CheckpointOptions& options, const std::string& root,
                                   CutSource* source, const std::atomic<bool>* stop,
                                   std::function<void(absl::string_view)> say)
    : options_(options),
      stop_(stop),
      say_(std::move(say)),
      checkpointer_({root, options.full_every(), options.pace()}, source),
      saved_at_(Seconds()) {}

void CheckpointKeeper::TakenUp(int64_t step) {
  saved_step_ = step;
  saved_at_ = Seconds();
  due_ = TimesDue(step);
}

int64_t CheckpointKeeper::TimesDue(int64_t step) const {
  return options_.every_steps() > 0 ? step / options_.every_steps() : 0;
}

bool CheckpointKeeper::Due(int64_t step) {
  if (failed_.ok()) failed_ = checkpointer_.Poll();
  if (!failed_.ok()) {
    saved_step_ = -1;
    return true;
  }
  // By step: always at the same ones, even if the one before has to be waited for.
  if (TimesDue(step) > due_) return true;
  return options_.every() > 0 && Seconds() - saved_at_ >= options_.every() &&
         !checkpointer_.writing();
}

absl::Status CheckpointKeeper::Begin(const CheckpointInfo& info, int64_t protect_step) {
  const double start = Seconds();
  StageSpan span(Stage::kCheckpoint, info.state().step());
  absl::Status status = checkpointer_.Start(info, {options_.keep(), protect_step});
  saved_step_ = status.ok() ? info.state().step() : -1;
  saved_at_ = Seconds();
  due_ = TimesDue(info.state().step());
  seconds_ += saved_at_ - start;
  return status;
}

absl::Status CheckpointKeeper::Await() {
  const double start = Seconds();
  StageWait wait(Stage::kCheckpoint);
  absl::Status status = checkpointer_.Wait();
  if (!status.ok()) saved_step_ = -1;
  seconds_ += Seconds() - start;
  return status;
}

absl::Status CheckpointKeeper::Cut(const CheckpointInfo& info, int64_t protect_step) {
  absl::Status error =
      failed_.ok() ? Begin(info, protect_step) : std::exchange(failed_, absl::OkStatus());
  // A server that is gone does not come back by waiting, nor without a rollback.
  if (error.ok() || absl::IsUnavailable(error)) return error;
  switch (options_.on_error()) {
    case CheckpointOptions::WAIT:
      return SaveWhenPossible(info, protect_step, error);
    case CheckpointOptions::GO_ON:
      say_(absl::StrCat("CHECKPOINT FAILED: ", error.message(),
                        "; training goes on (train.checkpoint.on_error: go_on)"));
      saved_at_ = Seconds();
      due_ = TimesDue(info.state().step());
      return absl::OkStatus();
    default:
      return error;
  }
}

absl::Status CheckpointKeeper::Save(const CheckpointInfo& info, int64_t protect_step) {
  if (absl::Status earlier = Await(); !earlier.ok())
    say_(absl::StrCat("CHECKPOINT FAILED: ", earlier.message(), "; this one is tried anew"));
  absl::Status status = Begin(info, protect_step);
  if (status.ok()) status = Await();
  if (status.ok() || absl::IsUnavailable(status)) return status;
  if (options_.on_error() != CheckpointOptions::WAIT) return status;
  return SaveWhenPossible(info, protect_step, status);
}

absl::Status CheckpointKeeper::SaveWhenPossible(const CheckpointInfo& info, int64_t protect_step,
                                                const absl::Status& error) {
  say_(absl::StrCat("CHECKPOINT FAILED: ", error.message(),
                    "; waiting to try again (train.checkpoint.on_error: wait)"));
  absl::Status status = error;
  while (!status.ok()) {
    for (double end = Seconds() + 1; Seconds() < end;) {
      if (stop_->load()) return status;
      absl::SleepFor(absl::Milliseconds(20));
    }
    status = Begin(info, protect_step);
    if (status.ok()) status = Await();
    if (absl::IsUnavailable(status)) return status;
  }
  say_(absl::StrCat("checkpoint written after all: ", newest()));
  return absl::OkStatus();
}

}  // namespace starling
