#include "scheduler/schedule.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

TEST(ScheduleTest, WarmUpRisesInEqualStepsToTheFullRate) {
  ScheduleOptions s;
  s.set_warmup_steps(4);
  EXPECT_DOUBLE_EQ(LearningRateScale(s, 0, 1), 0.25);
  EXPECT_DOUBLE_EQ(LearningRateScale(s, 2, 1), 0.75);
  EXPECT_DOUBLE_EQ(LearningRateScale(s, 3, 1), 1);
  EXPECT_DOUBLE_EQ(LearningRateScale(s, 400, 1), 1);
}

TEST(ScheduleTest, CosineEndsAtItsFloor) {
  ScheduleOptions s;
  s.mutable_cosine()->set_steps(100);
  s.mutable_cosine()->set_floor(0.1);
  EXPECT_DOUBLE_EQ(LearningRateScale(s, 0, 1), 1);
  EXPECT_NEAR(LearningRateScale(s, 50, 1), 0.55, 1e-12);
  EXPECT_NEAR(LearningRateScale(s, 100, 1), 0.1, 1e-12);
  EXPECT_NEAR(LearningRateScale(s, 1000, 1), 0.1, 1e-12);
}

TEST(ScheduleTest, StepAndPlateauMultiply) {
  ScheduleOptions s;
  s.mutable_step()->set_every(10);
  EXPECT_DOUBLE_EQ(LearningRateScale(s, 9, 1), 1);
  EXPECT_DOUBLE_EQ(LearningRateScale(s, 25, 1), 0.25);
  ScheduleOptions p;
  EXPECT_EQ(CutPlateau(p, 1), 1);
  p.mutable_plateau()->set_factor(0.1);
  p.mutable_plateau()->set_floor(0.05);
  EXPECT_DOUBLE_EQ(CutPlateau(p, 1), 0.1);
  EXPECT_DOUBLE_EQ(CutPlateau(p, 0.1), 0.05);
  EXPECT_DOUBLE_EQ(LearningRateScale(p, 7, 0.1), 0.1);
}

}  // namespace
}  // namespace starling
