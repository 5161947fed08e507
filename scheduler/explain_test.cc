#include "scheduler/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/test_root.h"
#include "scheduler/run_record.h"

namespace starling {
namespace {

using testing::Contains;
using testing::HasSubstr;

// 100 s of two cores: reading 10, compiling 10, pull 20, compute 140, push 10.
RunRecord GoodRun() {
  RunRecord run;
  run.set_cores(2);
  run.set_threads(2);
  run.set_read_threads(1);
  run.set_batch(4096);
  run.set_tile(256);
  run.set_steps(100);
  run.set_samples(409600);
  run.set_splits(4);
  run.set_train_seconds(100);
  for (const auto& [name, busy] : std::vector<std::pair<const char*, double>>{{"read", 10},
                                                                              {"compile", 10},
                                                                              {"pull", 20},
                                                                              {"compute", 140},
                                                                              {"push", 10},
                                                                              {"eval", 500}}) {
    StageRecord* stage = run.add_stages();
    stage->set_name(name);
    stage->set_busy(busy);
  }
  return run;
}

TEST(Explain, NamesTheStageWithTheMostWork) {
  Explanation e = Explain(GoodRun());
  EXPECT_DOUBLE_EQ(e.work_share, 0.95);
  EXPECT_EQ(e.bottleneck, "compute");
  EXPECT_THAT(e.why, HasSubstr("74 % of the work"));
  EXPECT_THAT(e.advice, Contains(HasSubstr("more cores")));
}

TEST(Explain, StepsThatWaitForBatchesWantReadersOrADisk) {
  RunRecord run = GoodRun();
  run.set_step_wait_read(40);
  run.mutable_stages(0)->set_busy(20);
  run.mutable_stages(1)->set_busy(130);  // By the reading thread and one of the steps'.
  Explanation e = Explain(run);
  EXPECT_EQ(e.bottleneck, "compile");
  EXPECT_THAT(e.why, HasSubstr("busy 75 % of it"));
  EXPECT_THAT(e.advice[0], HasSubstr("train.read_threads: 2"));

  run.mutable_stages(1)->set_busy(5);
  e = Explain(run);
  EXPECT_EQ(e.bottleneck, "read");
  EXPECT_THAT(e.advice, Contains(HasSubstr("faster disk")));
}

TEST(Explain, StepsThatWaitForCopiesWantFewerDevices) {
  RunRecord run = GoodRun();
  run.add_devices("cpu:0");
  run.add_devices("cpu:1");
  for (const std::string& line : Explain(run).advice) {
    EXPECT_THAT(line, testing::Not(HasSubstr("train.devices")));
  }
  run.set_step_copy(20);
  EXPECT_THAT(Explain(run).advice, Contains(HasSubstr("train.devices: steps waited 20 %")));
}

TEST(Explain, RowsFromDiskWantMemory) {
  RunRecord run = GoodRun();
  run.mutable_stages(2)->set_busy(150);
  TableRecord* table = run.add_tables();
  table->set_name("ads");
  table->set_memory(64 << 20);
  table->set_rows_memory(10);
  table->set_rows_cold(90);
  table->set_hits_memory(700);
  table->set_hits_cold(300);
  Explanation e = Explain(run);
  EXPECT_EQ(e.bottleneck, "pull");
  EXPECT_THAT(e.advice[0], HasSubstr("table ads: 30 %"));
  EXPECT_THAT(e.advice[0], HasSubstr("more than memory: 64MiB (10 of 100 rows"));
}

TEST(Explain, CheckpointsThatHoldStepsUp) {
  RunRecord run = GoodRun();
  run.set_checkpoint_seconds(20);
  EXPECT_EQ(Explain(run).bottleneck, "checkpoint");
  EXPECT_THAT(Explain(run).advice[0], HasSubstr("train.checkpoint.every"));
}

TEST(Explain, SmallBatchesLeaveCoresIdle) {
  RunRecord run = GoodRun();
  run.mutable_stages(3)->set_busy(60);
  run.set_batch(512);
  run.set_samples(20000);
  Explanation e = Explain(run);
  EXPECT_THAT(e.advice, Contains(HasSubstr("data.batch: 1024")));
  EXPECT_THAT(e.advice, Contains(HasSubstr("batches hold 200 rows of 512")));
}

TEST(RunRecord, IsReadAsWritten) {
  const std::string dir = JoinPath(TestRoot(), "run_record");
  ASSERT_TRUE(MakeDirs(dir).ok());
  ASSERT_TRUE(WriteRunRecord(GoodRun(), dir).ok());
  auto read = ReadRunRecord(dir);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), GoodRun().SerializeAsString());
  EXPECT_TRUE(absl::IsNotFound(ReadRunRecord(dir + "/none").status()));
  ASSERT_TRUE(WriteFileAtomically(JoinPath(dir, "run.json"), "{\"steps\": \"many\"").ok());
  EXPECT_THAT(std::string(ReadRunRecord(dir).status().message()), HasSubstr("run.json: not a run"));
}

}  // namespace
}  // namespace starling
