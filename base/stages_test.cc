#include "base/stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <thread>

#include "absl/time/clock.h"
#include "base/file.h"
#include "base/metrics.h"
#include "base/test_root.h"
#include "base/thread_pool.h"

namespace starling {
namespace {

using testing::HasSubstr;

// So much of the processor's time, however long that takes.
void Spend(int ms) {
  const auto now = [] {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  for (const double end = now() + ms * 1e-3; now() < end;) {
  }
}
const StageUse& Of(const StageUses& uses, Stage stage) { return uses[static_cast<int>(stage)]; }

TEST(Stages, ASpanInsideAnotherCountsForItselfAlone) {
  const StageUses before = ReadStages();
  const absl::Time start = absl::Now();
  {
    StageSpan outer(Stage::kCompute);
    Spend(5);
    {
      StageWait inner(Stage::kPull);
      EXPECT_EQ(StageSpan::Current(), std::nullopt);
      Spend(20);
    }
    EXPECT_EQ(StageSpan::Current(), Stage::kCompute);
  }
  const double all = absl::ToDoubleSeconds(absl::Now() - start);
  const StageUses uses = UseBetween(before, ReadStages());
  EXPECT_GE(Of(uses, Stage::kCompute).busy, 0.005);
  EXPECT_GE(Of(uses, Stage::kPull).wait, 0.020);
  EXPECT_LE(Of(uses, Stage::kCompute).busy + Of(uses, Stage::kPull).wait, all);
  EXPECT_EQ(Of(uses, Stage::kCompute).wait, 0);
  EXPECT_EQ(Of(uses, Stage::kPull).busy, 0);
}

TEST(Stages, SleepIsNoWork) {
  const StageUses before = ReadStages();
  {
    StageSpan span(Stage::kRead);
    absl::SleepFor(absl::Milliseconds(50));
  }
  EXPECT_LT(Of(UseBetween(before, ReadStages()), Stage::kRead).busy, 0.050);
}

TEST(Stages, ThreadsOfAPoolWorkInTheCallersStage) {
  ThreadPool pool(3);
  const StageUses before = ReadStages();
  {
    StageSpan span(Stage::kPush);
    pool.ParallelFor(6, [](int) { Spend(5); });
  }
  pool.ParallelFor(6, [](int) { EXPECT_EQ(StageSpan::Current(), std::nullopt); });
  const StageUses uses = UseBetween(before, ReadStages());
  EXPECT_GE(Of(uses, Stage::kPush).busy, 0.030);
}

TEST(Stages, QueuesHaveAMeanDepth) {
  const StageUses before = ReadStages();
  NoteQueue(Stage::kPull, 1, 4);
  NoteQueue(Stage::kPull, 4, 4);
  const StageUses uses = UseBetween(before, ReadStages());
  EXPECT_DOUBLE_EQ(Of(uses, Stage::kPull).depth(), 2.5);
  EXPECT_EQ(Of(uses, Stage::kPull).depth_most, 4);
}

TEST(Stages, PrometheusHasThem) {
  ExportStages();
  { StageSpan span(Stage::kEval); }
  NoteQueue(Stage::kPull, 1, 4);
  const std::string text = MetricsText();
  EXPECT_THAT(text, HasSubstr("starling_stage_seconds_total{kind=\"busy\",stage=\"eval\"}"));
  EXPECT_THAT(text, HasSubstr("starling_stage_queue_depth{stage=\"pull\"}"));
}

TEST(Trace, HasOneLaneAThread) {
  const std::string path = JoinPath(TestRoot(), "trace.json");
  StartTrace();
  std::thread other([] {
    NameThread("other");
    StageSpan span(Stage::kRead);
  });
  other.join();
  {
    StageSpan span(Stage::kCompute, 7);
    StageWait wait(Stage::kPull);
  }
  ASSERT_TRUE(WriteTrace(path).ok());
  { StageSpan late(Stage::kEval); }
  const std::string json = *ReadFile(path);
  EXPECT_THAT(json, HasSubstr(R"("args": {"name": "other"})"));
  EXPECT_THAT(json, HasSubstr(R"("name": "read")"));
  EXPECT_THAT(json, HasSubstr(R"("name": "wait: pull")"));
  EXPECT_THAT(json, HasSubstr(R"("args": {"step": 7})"));
  EXPECT_THAT(json, HasSubstr(R"("left_out": 0)"));
  EXPECT_THAT(json, testing::Not(HasSubstr("eval")));
  EXPECT_FALSE(WriteTrace("/nowhere/trace.json").ok());
}

}  // namespace
}  // namespace starling
