#include "scheduler/checkpointer.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "base/sync_point.h"
#include "ps/store_testing.h"
#include "scheduler/checkpoint_keeper.h"

namespace starling {
namespace {

class CheckpointerTest : public testing::Test {
 protected:
  // Many checkpoints: in memory, where an fsync costs nothing, if there is such a place.
  CheckpointerTest()
      : root_(PathExists("/dev/shm") ? absl::StrCat("/dev/shm/checkpointer_test.", getpid())
                                     : TestPath("root")),
        store_(TestStore(TestConfig())) {}
  ~CheckpointerTest() override {
    SetFileFault(nullptr);
    SetSyncPointHandler(nullptr);
    EXPECT_TRUE(RemoveAll(root_).ok());
  }

  void Train(uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; ++i) {
      TestBatch batch(i, 10);
      bool applied = false;
      ASSERT_TRUE(store_->PullRows(PullMode::kCreate, batch.keys, batch.row_spans).ok());
      ASSERT_TRUE(PushBatch(*store_, NameOf(i), batch, &applied).ok());
      ASSERT_TRUE(applied);
    }
  }
  absl::Status Start(Checkpointer* to, int64_t step, Retention retention = {3, -1}) {
    CheckpointInfo info;
    info.mutable_state()->set_step(step);
    return to->Start(info, retention);
  }
  absl::Status Save(Checkpointer* to, int64_t step, Retention retention = {3, -1}) {
    RETURN_IF_ERROR(Start(to, step, retention));
    return to->Wait();
  }
  static StoreContent ContentOf(ParameterStore& store) {
    StoreContent content;
    content.Add(store);
    return content;
  }
  // Of the latest checkpoint; *length gets its chain's.
  StoreContent Restored(size_t* length = nullptr) {
    auto latest = LatestCheckpoint(root_);
    EXPECT_TRUE(latest.ok()) << latest.status();
    if (!latest.ok()) return {};
    if (length != nullptr) *length = latest->chain.size();
    auto store = TestStore(TestConfig());
    absl::Status status = store->Load(latest->chain);
    EXPECT_TRUE(status.ok()) << status;
    return ContentOf(*store);
  }

  const std::string root_;
  std::unique_ptr<ParameterStore> store_;
};

TEST_F(CheckpointerTest, HoldsTheInstantThoughTrainingGoesOn) {
  Train(0, 5);
  const StoreContent then = ContentOf(*store_);
  absl::Notification trained;
  SetSyncPointHandler([&](absl::string_view name) {
    if (name == "store.snapshot.start") trained.WaitForNotification();
  });
  Checkpointer checkpointer({root_, 4}, store_.get());
  ASSERT_TRUE(Start(&checkpointer, 5).ok());
  Train(5, 15);
  ASSERT_TRUE(store_->table(0).Erase(std::vector<uint64_t>{Mix64(1), Mix64(2), Mix64(3)}).ok());
  EXPECT_TRUE(checkpointer.writing());
  trained.Notify();
  ASSERT_TRUE(checkpointer.Wait().ok());
  EXPECT_FALSE(ContentOf(*store_) == then);
  EXPECT_TRUE(Restored() == then);
}

TEST_F(CheckpointerTest, ChainsAreAsLongAsAllowedAndRestoreWhatWasThere) {
  Checkpointer checkpointer({root_, 3}, store_.get());
  std::vector<size_t> lengths;
  for (uint32_t i = 0; i < 8; ++i) {
    Train(3 * i, 3 * i + 3);
    // Ids that are gone must not come back from an earlier link.
    ASSERT_TRUE(store_->table(1).Erase(std::vector<uint64_t>{Mix64(i), Mix64(i + 50)}).ok());
    ASSERT_TRUE(Save(&checkpointer, i).ok());
    size_t length = 0;
    EXPECT_TRUE(Restored(&length) == ContentOf(*store_)) << i;
    lengths.push_back(length);
  }
  EXPECT_EQ(lengths, (std::vector<size_t>{1, 2, 3, 1, 2, 3, 1, 2}));
}

TEST_F(CheckpointerTest, WhatAKeptOneRestsOnIsKept) {
  Checkpointer checkpointer({root_, 4}, store_.get());
  std::vector<std::vector<std::string>> left;
  for (uint32_t i = 0; i < 6; ++i) {
    Train(i, i + 1);
    ASSERT_TRUE(Save(&checkpointer, i, {.keep = 1, .protect_step = 1}).ok());
    left.push_back(*ListDir(root_));
  }
  auto names = [](std::vector<int> steps) {
    std::vector<std::string> all;
    for (int s : steps) all.push_back(absl::StrCat("step-00000000000", s));
    return all;
  };
  EXPECT_EQ(left[2], names({0, 1, 2}));
  EXPECT_EQ(left[3], names({0, 1, 2, 3}));
  EXPECT_EQ(left[4], names({0, 1, 4})) << "a full one needs nothing; 1 is protected, with its base";
  EXPECT_EQ(left[5], names({0, 1, 4, 5}));
}

TEST_F(CheckpointerTest, AFaultAtAnyWriteHarmsNoCompleteOneAndTheNextTryWorks) {
  for (const auto& [incremental, error] :
       std::vector<std::pair<bool, absl::Status>>{{false, absl::ResourceExhaustedError("ENOSPC")},
                                                  {false, absl::DataLossError("EIO")},
                                                  {true, absl::ResourceExhaustedError("ENOSPC")},
                                                  {true, absl::DataLossError("EIO")}}) {
    int sites = 0;
    for (int n = 0;; ++n) {
      ASSERT_TRUE(RemoveAll(root_).ok());
      store_ = TestStore(TestConfig());
      Checkpointer checkpointer({root_, incremental ? 8 : 1}, store_.get());
      Train(0, 3);
      ASSERT_TRUE(Save(&checkpointer, 3).ok());
      const StoreContent good = ContentOf(*store_);
      Train(3, 6);
      ASSERT_TRUE(store_->table(0).Erase(std::vector<uint64_t>{Mix64(7), Mix64(9)}).ok());
      std::atomic<int> left{n};
      std::atomic<bool> hit{false};
      SetFileFault([&, error = error](absl::string_view op, absl::string_view) {
        if (op == "remove" || left.fetch_sub(1) != 0) return absl::OkStatus();
        hit = true;
        return error;
      });
      absl::Status status = Save(&checkpointer, 6);
      SetFileFault(nullptr);
      if (!hit) {
        EXPECT_TRUE(status.ok()) << status;
        break;
      }
      ++sites;
      if (!status.ok()) {
        EXPECT_EQ(status.code(), error.code()) << "site " << n << ": " << status;
        EXPECT_TRUE(Restored() == good) << "site " << n;
      }
      Train(6, 8);
      status = Save(&checkpointer, 8);
      EXPECT_TRUE(status.ok()) << "site " << n << ": " << status;
      EXPECT_TRUE(Restored() == ContentOf(*store_)) << "site " << n;
    }
    EXPECT_GT(sites, 15) << "every write site was failed once";
  }
}

// Beginning and background writing alike: whatever of a checkpoint cannot be
// written, training ends, waits or goes on as the job says, and then goes on.
TEST_F(CheckpointerTest, AFaultAtAnyWriteIsHandledAsTheJobSays) {
  using P = CheckpointOptions;
  const absl::Status full = absl::ResourceExhaustedError("disk full"),
                     io = absl::DataLossError("I/O");
  for (const auto& [on_error, error] :
       std::vector<std::pair<P::OnError, absl::Status>>{{P::STOP, full},
                                                        {P::STOP, io},
                                                        {P::GO_ON, full},
                                                        {P::GO_ON, io},
                                                        {P::WAIT, full},
                                                        {P::WAIT, io}}) {
    // Waiting takes a second each time: some of the sites.
    const int stride = on_error == P::WAIT ? 7 : 1;
    for (int n = 0;; n += stride) {
      ASSERT_TRUE(RemoveAll(root_).ok());
      store_ = TestStore(TestConfig());
      CheckpointOptions options;
      options.set_on_error(on_error);
      options.set_every_steps(3);
      std::string said;
      std::atomic<bool> stop{false};
      CheckpointKeeper keeper(options, root_, store_.get(), &stop,
                              [&](absl::string_view line) { absl::StrAppend(&said, line, "\n"); });
      CheckpointInfo info;
      // As a trainer does: after every step it asks, and cuts if one is due or has failed.
      auto train_to = [&](uint32_t end) -> absl::Status {
        for (uint32_t step = info.state().step(); step < end; ++step) {
          Train(step, step + 1);
          info.mutable_state()->set_step(step + 1);
          if (keeper.Due(step + 1)) RETURN_IF_ERROR(keeper.Cut(info));
        }
        return absl::OkStatus();
      };
      ASSERT_TRUE(train_to(3).ok() && keeper.Await().ok());
      std::atomic<int> left{n};
      std::atomic<bool> hit{false};
      SetFileFault([&, error = error](absl::string_view op, absl::string_view) {
        if (op == "remove" || left.fetch_sub(1) != 0) return absl::OkStatus();
        hit = true;
        return error;
      });
      absl::Status status = train_to(6);
      while (status.ok() && said.empty() && keeper.newest().ends_with("3") && !keeper.Due(6)) {
        absl::SleepFor(absl::Milliseconds(1));  // Until it is written or has failed.
      }
      const bool failed = !status.ok() || keeper.saved_step() == -1 || !said.empty();
      if (status.ok() && keeper.Due(6)) status = keeper.Cut(info);
      SetFileFault(nullptr);
      if (!hit) {
        EXPECT_TRUE(status.ok() && said.empty()) << status << said;
        EXPECT_GT(n, 15) << "every write site was failed once";
        break;
      }
      EXPECT_EQ(status.code() == error.code(), failed && on_error == P::STOP)
          << "site " << n << ": " << status;
      EXPECT_EQ(absl::StrContains(said, "CHECKPOINT FAILED"), failed && on_error != P::STOP)
          << "site " << n << ": " << said;
      EXPECT_EQ(absl::StrContains(said, "written after all"), failed && on_error == P::WAIT)
          << "site " << n;
      ASSERT_TRUE(LatestCheckpoint(root_).ok()) << "site " << n;
      if (failed && on_error == P::STOP) continue;
      ASSERT_TRUE(train_to(8).ok()) << "site " << n;
      status = keeper.Save(info);
      EXPECT_TRUE(status.ok()) << "site " << n << ": " << status;
      EXPECT_TRUE(Restored() == ContentOf(*store_)) << "site " << n;
    }
  }
}

TEST_F(CheckpointerTest, ADamagedOrReplacedBaseIsNotedAndTheOneBeforeItTaken) {
  Checkpointer checkpointer({root_, 2}, store_.get());
  std::vector<StoreContent> contents;
  for (uint32_t i = 0; i < 4; ++i) {  // Full, incremental, full, incremental.
    Train(i, i + 1);
    ASSERT_TRUE(Save(&checkpointer, i, {8, -1}).ok());
    contents.push_back(ContentOf(*store_));
  }
  auto dir = [&](int i) { return JoinPath(root_, absl::StrCat("step-00000000000", i)); };
  EXPECT_TRUE(Restored() == contents[3]);
  // The manifest of another checkpoint in its base's place.
  const std::string manifest = *ReadFile(JoinPath(dir(2), "MANIFEST"));
  ASSERT_TRUE(
      WriteFileAtomically(JoinPath(dir(2), "MANIFEST"), *ReadFile(JoinPath(dir(0), "MANIFEST")))
          .ok());
  EXPECT_TRUE(absl::IsDataLoss(OpenCheckpoint(dir(3)).status()));
  EXPECT_TRUE(Restored() == contents[1]);
  ASSERT_TRUE(WriteFileAtomically(JoinPath(dir(2), "MANIFEST"), manifest).ok());
  EXPECT_TRUE(Restored() == contents[3]);
  ASSERT_TRUE(RemoveAll(dir(0)).ok());
  ASSERT_TRUE(RemoveAll(dir(2)).ok());
  EXPECT_TRUE(absl::IsDataLoss(LatestCheckpoint(root_).status())) << "none is left whole";
}

}  // namespace
}  // namespace starling
