// CutTask: a cut that a server writes on a thread of its own, so that no call
// has to wait for it.
//
// Thread safety: any method, any thread.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "ps/parameter_store.h"

namespace starling {

class CutTask {
 public:
  CutTask(std::shared_ptr<ParameterStore> store, std::unique_ptr<StoreCut> cut)
      : store_(std::move(store)), cut_(std::move(cut)), thread_([this] {
          files_ = cut_->Wait();
          done_ = true;
        }) {}
  ~CutTask() {
    cut_->Hurry();
    thread_.join();
  }

  void Hurry() { cut_->Hurry(); }
  bool done() const { return done_; }
  // REQUIRES: done.
  const absl::StatusOr<std::vector<FileSetEntry>>& files() const { return files_; }

 private:
  const std::shared_ptr<ParameterStore> store_;  // Outlives the cut, though another be loaded.
  const std::unique_ptr<StoreCut> cut_;
  absl::StatusOr<std::vector<FileSetEntry>> files_;  // The thread's, until done_.
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace starling
