#include "scheduler/copy_stage.h"

#include <utility>
#include <vector>

#include "base/stages.h"
#include "base/status.h"

namespace starling {

CopyStage::CopyStage(const Replicas* replicas) : replicas_(replicas) {
  for (auto& buffer : buffers_) buffer = replicas->NewBuffer();
  thread_ = std::thread([this] { Work(); });
}

CopyStage::~CopyStage() {
  {
    absl::MutexLock lock(&mu_);
    stop_ = true;
  }
  thread_.join();
}

void CopyStage::Add(const Input& input) {
  absl::MutexLock lock(&mu_);
  inputs_.push_back(input);
}

absl::StatusOr<Replicas::Buffer*> CopyStage::Take() {
  StageWait wait(Stage::kCopy);
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(
      +[](std::deque<absl::Status>* copied) { return !copied->empty(); }, &copied_));
  NoteQueue(Stage::kCompute, static_cast<int>(copied_.size()), kBuffers);
  absl::Status status = std::move(copied_.front());
  copied_.pop_front();
  Replicas::Buffer* buffer = buffers_[taken_++ % kBuffers].get();
  RETURN_IF_ERROR(status);
  return buffer;
}

void CopyStage::Release() {
  absl::MutexLock lock(&mu_);
  ++released_;
}

void CopyStage::Work() {
  NameThread("copy");
  while (true) {
    Input input;
    Replicas::Buffer* buffer = nullptr;
    {
      StageWait wait(Stage::kCopy);
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &CopyStage::CanCopy));
      if (stop_) return;
      input = inputs_.front();
      inputs_.pop_front();
      buffer = buffers_[made_ % kBuffers].get();
    }
    absl::Status status = Copy(input, buffer);
    absl::MutexLock lock(&mu_);
    copied_.push_back(std::move(status));
    ++made_;
  }
}

absl::Status CopyStage::Copy(const Input& input, Replicas::Buffer* buffer) const {
  StageSpan span(Stage::kCopy, input.step);
  const absl::Status status = replicas_->CopyBatch(*input.batch, buffer);
  {
    StageWait wait(Stage::kCopy);
    input.pull_done->WaitForNotification();
  }
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(*input.pulled);
  const std::vector<std::span<const float>> rows(input.rows.begin(), input.rows.end());
  return replicas_->CopyRows(rows, input.dense, buffer);
}

}  // namespace starling
