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

}  // namespace
}  // namespace starling
