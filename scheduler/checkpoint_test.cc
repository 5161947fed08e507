#include "scheduler/checkpoint.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/status.h"
#include "base/test_root.h"

namespace starling {
namespace {

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() : root_(JoinPath(TestRoot(), "checkpoints")) {}
  ~CheckpointTest() override {
    SetFileFault(nullptr);
    EXPECT_TRUE(RemoveAll(root_).ok());
  }

  absl::StatusOr<std::string> Write(int64_t step, int keep = 2, int64_t protect = -1) {
    CheckpointInfo info;
    info.mutable_state()->set_step(step);
    ASSIGN_OR_RETURN(std::string dir, NewCheckpointDir(root_, step));
    RETURN_IF_ERROR(FinishCheckpoint(
        dir, info, {keep, protect}, [&]() -> absl::StatusOr<std::vector<FileSetEntry>> {
          ASSIGN_OR_RETURN(FileSetEntry e, WriteSetFile(dir, "part", absl::StrCat("step ", step)));
          return std::vector<FileSetEntry>{e};
        }));
    return dir;
  }
  std::vector<int64_t> Steps() {
    std::vector<int64_t> steps;
    std::vector<std::string> names = *ListDir(root_);
    for (const std::string& name : names) {
      steps.push_back(OpenCheckpoint(JoinPath(root_, name))->info.state().step());
    }
    return steps;
  }

  const std::string root_;
};

TEST_F(CheckpointTest, KeepsTheNewestAndTheProtected) {
  EXPECT_TRUE(absl::IsNotFound(LatestCheckpoint(root_).status()));
  for (int64_t step : {10, 20, 30, 40}) ASSERT_TRUE(Write(step, 2, 10).ok());
  EXPECT_EQ(Steps(), (std::vector<int64_t>{10, 30, 40}));
  EXPECT_EQ(LatestCheckpoint(root_)->info.state().step(), 40);
}

TEST_F(CheckpointTest, ASecondOneOfTheSameStepHarmsNotTheFirst) {
  std::string first = *Write(10), second = *Write(10);
  EXPECT_NE(first, second);
  EXPECT_EQ(LatestCheckpoint(root_)->dir, second);
  EXPECT_TRUE(OpenCheckpoint(first).ok());
}

TEST_F(CheckpointTest, AFailureAtAnyWriteLeavesTheEarlierOneAndNothingElse) {
  ASSERT_TRUE(Write(10).ok());
  for (int n = 0;; ++n) {
    int left = n;
    bool hit = false;
    SetFileFault([&](absl::string_view op, absl::string_view) {
      if (op == "remove" || left-- != 0) return absl::OkStatus();
      hit = true;
      return absl::ResourceExhaustedError("disk full");
    });
    absl::StatusOr<std::string> written = Write(20);
    SetFileFault(nullptr);
    if (!hit) {
      EXPECT_TRUE(written.ok());
      EXPECT_GT(n, 6) << "every write site was failed once";
      break;
    }
    if (written.ok()) continue;
    EXPECT_TRUE(absl::IsResourceExhausted(written.status()));
    EXPECT_EQ(Steps(), std::vector<int64_t>{10}) << "fault " << n;
  }
  EXPECT_EQ(Steps(), (std::vector<int64_t>{10, 20}));
}

TEST_F(CheckpointTest, ADamagedNewestFallsBackAndLeftoversAreSwept) {
  ASSERT_TRUE(Write(10).ok());
  std::string newest = *Write(20);
  ASSERT_TRUE(WriteFileAtomically(JoinPath(newest, "part"), "step 2x").ok());
  EXPECT_EQ(LatestCheckpoint(root_)->info.state().step(), 10);
  // What a killed process left: files without a manifest.
  ASSERT_TRUE(MakeDirs(JoinPath(root_, "step-000000000015")).ok());
  ASSERT_TRUE(Write(30, 3).ok());
  EXPECT_FALSE(PathExists(JoinPath(root_, "step-000000000015")));
}

TEST_F(CheckpointTest, OnlyDamageMakesAnOlderOneBeTaken) {
  ASSERT_TRUE(Write(10).ok());
  const std::string newest = *Write(20);
  std::vector<int64_t> given;
  absl::Status answer = absl::FailedPreconditionError("of another job");
  auto take = [&](const Checkpoint& checkpoint) {
    given.push_back(checkpoint.info.state().step());
    return given.back() == 20 ? answer : absl::OkStatus();
  };
  for (const std::string& path : {root_, newest}) {
    EXPECT_EQ(FindCheckpoint(path, take).status(), answer);
    answer = absl::DataLossError("of the scratch disk");
    EXPECT_EQ(FindCheckpoint(path, take).status(), answer);
  }
  answer = absl::NotFoundError("no such file");
  EXPECT_EQ(CheckpointToResume(root_, true, take).status(), answer) << "it is not a new job";
  EXPECT_EQ(given, std::vector<int64_t>(5, 20));
  // However the damage shows.
  ASSERT_TRUE(WriteFileAtomically(JoinPath(newest, "part"), "step 2x").ok());
  answer = absl::FailedPreconditionError("of another job");
  EXPECT_TRUE(absl::IsDataLoss(FindCheckpoint(newest, take).status()));
  given.clear();
  auto taken = CheckpointToResume(root_, true, take);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ((*taken)->info.state().step(), 10);
  EXPECT_EQ(given, (std::vector<int64_t>{20, 10}));
}

TEST_F(CheckpointTest, ARunThatDoesNotResumeTakesNothing) {
  auto take = [](const Checkpoint&) -> absl::Status { return absl::InternalError("taken"); };
  EXPECT_EQ(*CheckpointToResume(root_, false, take), std::nullopt);
  ASSERT_TRUE(Write(10).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(CheckpointToResume(root_, false, take).status()));
}

}  // namespace
}  // namespace starling
