#include "scheduler/plan_tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace starling {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

absl::StatusOr<Plan> PlanOf(const std::string& yaml) {
  Job job;
  SourceMap map;
  if (absl::Status s = ParseYaml(yaml, "job.yaml", {}, &job, &map); !s.ok()) return s;
  return MakePlan(job, map);
}
// `data` and `rest` beside one feature a block needs.
absl::StatusOr<Plan> PlanOf(const std::string& data, const std::string& rest) {
  return PlanOf(absl::StrCat("data: {", data, "}\nfeatures: [{id: [a, b], dim: 4}]\n", rest, "\n"));
}
std::string ErrorOf(const std::string& data, const std::string& rest) {
  return std::string(PlanOf(data, rest).status().message());
}

constexpr char kEsmm[] = "model: {esmm: {hidden: [8]}}\n";
constexpr char kDnn[] = "model: {dnn: {hidden: [8]}}\n";

TEST(PlanTasksTest, APlainJobNamesNoTask) {
  auto plan = PlanOf("label: click", kDnn);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->features.label(), "click");
  EXPECT_THAT(plan->features.more_labels(), IsEmpty());
  EXPECT_EQ(plan->graph.tasks_size(), 0);
  EXPECT_THAT(plan->graph.labels(), IsEmpty());
}

TEST(PlanTasksTest, EachLabelIsATaskUnlessTasksAreListed) {
  auto plan = PlanOf("label: [click, buy]", kEsmm);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->features.label(), "click");
  EXPECT_THAT(plan->features.more_labels(), ElementsAre("buy"));
  EXPECT_THAT(plan->graph.labels(), ElementsAre("click", "buy"));
  ASSERT_EQ(plan->graph.tasks_size(), 2);
  EXPECT_EQ(plan->graph.tasks(1).name(), "buy");
  EXPECT_EQ(plan->graph.tasks(1).label(), "buy");
}

TEST(PlanTasksTest, ListedTasksKeepTheirSettings) {
  auto plan =
      PlanOf("label: [click, seconds], weight: w",
             "model: {mmoe: {expert: {hidden: [8]}}}\n"
             "tasks: [{name: ctr, label: click, loss: {focal: {gamma: 1}}},\n"
             "        {name: time, label: seconds, weight: 0.1, given: click, loss: {mse: {}}}]");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->features.weight(), "w");
  EXPECT_THAT(plan->features.number_labels(), ElementsAre("seconds"));
  EXPECT_EQ(plan->graph.tasks(0).loss().focal().gamma(), 1);
  EXPECT_EQ(plan->graph.tasks(1).weight(), 0.1);
  EXPECT_EQ(plan->graph.tasks(1).given(), "click");
}

TEST(PlanTasksTest, TheOnlyLabelNeedsNoName) {
  auto plan = PlanOf("label: click", absl::StrCat(kDnn, "tasks: [{name: ctr}]"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->graph.tasks(0).label(), "click");
}

TEST(PlanTasksTest, ErrorsNameTheirPlace) {
  const char* two = "label: [click, buy]";
  auto dnn = [](const char* rest) { return absl::StrCat(kDnn, rest); };
  EXPECT_EQ(ErrorOf(two, dnn("tasks: [{name: a, label: clik}]")),
            "job.yaml:4:26: \"clik\" is none of data.label; did you mean \"click\"?");
  EXPECT_EQ(ErrorOf(two, dnn("tasks: [{name: a, label: click}]")),
            "job.yaml:1:23: no task reads label \"buy\": remove it");
  EXPECT_EQ(ErrorOf(two, dnn("tasks: [{name: a}]")),
            "job.yaml:4:9: which label? Set `label` to one of data.label");
  EXPECT_EQ(ErrorOf(two, dnn("tasks: [{name: a, label: buy}, {name: a, label: click}]")),
            "job.yaml:4:39: task \"a\" is there already");
  EXPECT_EQ(ErrorOf("label: y", dnn("tasks: [{name: a b}]")),
            "job.yaml:4:16: task \"a b\": a name is letters, digits, `_`, `-` and `.`");
  EXPECT_EQ(ErrorOf("label: y", dnn("tasks: [{name: a, weight: 0}]")),
            "job.yaml:4:27: weight must be more than 0");
  EXPECT_EQ(ErrorOf("label: y", dnn("tasks: [{name: a, loss: {pairwise: {}}}]")),
            "job.yaml:4:26: pairs are formed inside a group: set data.group or data.request");
  EXPECT_EQ(ErrorOf("label: y", dnn("tasks: [{name: a, loss: {focal: {alpha: 1}}}]")),
            "job.yaml:4:41: alpha must be between 0 and 1");
  EXPECT_EQ(ErrorOf("label: [y, y]", kDnn), "job.yaml:1:19: column \"y\" is listed twice");
  EXPECT_EQ(ErrorOf("label: [y, a]", kDnn),
            "job.yaml:2:18: column \"a\" is the label: it cannot be a feature too");
  EXPECT_EQ(ErrorOf("label: y, weight: b", kDnn),
            "job.yaml:2:21: column \"b\" is the weight: it cannot be a feature too");
  EXPECT_EQ(
      ErrorOf("label: [y, z], eval: e", absl::StrCat(kEsmm, "train: {early_stop: {task: x}}")),
      "job.yaml:4:28: no task \"x\"; did you mean \"y\"?");
}

TEST(PlanTasksTest, WhatTheModelCannotTakeIsNamedAtTheModel) {
  EXPECT_EQ(ErrorOf("label: [click, buy]", kDnn), "job.yaml:3:1: model dnn: takes 1 task, not 2");
  EXPECT_EQ(ErrorOf("label: [click, cvr]", kEsmm), "job.yaml:3:1: two outputs are named \"cvr\"");
  EXPECT_EQ(ErrorOf("label: click", kEsmm), "job.yaml:3:1: model esmm: takes 2 tasks, not 1");
  EXPECT_EQ(ErrorOf("label: click", "model: {dssm: {user: a, item: a, tower: {hidden: [4]}}}"),
            "job.yaml:3:1: model dssm: feature `a` must be in one tower: list it in user or in "
            "item, not in both");
  EXPECT_EQ(ErrorOf("label: click", "model: {mmoe: {experts: 0, expert: {hidden: [4]}}}"),
            "job.yaml:3:25: experts must be in 1..256");
  EXPECT_EQ(ErrorOf("label: click", "model: {ple: {expert: {}}}"),
            "job.yaml:3:15: expert needs hidden, as in {hidden: [64]}");
}

}  // namespace
}  // namespace starling
