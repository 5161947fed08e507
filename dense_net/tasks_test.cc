#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "dense_net/test_world.h"

namespace starling {
namespace {

using testing::HasSubstr;

constexpr char kTwo[] = " | name: 'a' label: 'y0' | name: 'b' label: 'y1'";

std::string Refusal(const std::string& model) {
  return std::string(
      Network::Create(MakeWorld(model, {}).spec, NetworkOptions()).status().message());
}

std::vector<std::string> OutputsOf(const std::string& model) {
  std::vector<std::string> names;
  auto network = MakeNetwork(MakeWorld(model, {}).spec);
  for (const OutputSpec& output : network->outputs()) names.push_back(output.name);
  return names;
}

TEST(Tasks, OutputsHaveTheNamesOfTasks) {
  EXPECT_THAT(OutputsOf("lr {}"), testing::ElementsAre("probability"));
  EXPECT_THAT(OutputsOf(std::string("mmoe { expert { hidden: 4 } }") + kTwo),
              testing::ElementsAre("a", "b"));
  EXPECT_THAT(OutputsOf(std::string("esmm { hidden: 4 cvr: 'conversion' }") + kTwo),
              testing::ElementsAre("a", "b", "conversion"));
}

TEST(Tasks, OutputsSayHowTheyAreJudged) {
  auto network = MakeNetwork(MakeWorld(std::string("esmm { hidden: 4 }") + kTwo, {}).spec);
  const std::vector<OutputSpec>& outputs = network->outputs();
  EXPECT_EQ(outputs[1].label, 1);
  EXPECT_EQ(outputs[1].given, -1);
  EXPECT_EQ(outputs[2].label, 1);
  EXPECT_EQ(outputs[2].given, 0);
  network =
      MakeNetwork(MakeWorld("lr {} | name: 'a' label: 'y1' given: 'y0' loss { mse {} }", {}).spec);
  EXPECT_FALSE(network->outputs()[0].probability);
  EXPECT_EQ(network->outputs()[0].given, 0);
}

TEST(Tasks, ModelRefusesTasksThatDoNotFit) {
  EXPECT_THAT(Refusal(std::string("lr {}") + kTwo), HasSubstr("model lr: takes 1 task, not 2"));
  EXPECT_THAT(Refusal("esmm { hidden: 4 }"), HasSubstr("model esmm: takes 2 tasks, not 1"));
  EXPECT_THAT(Refusal("lr {} | name: 'a' label: 'y7'"), HasSubstr("task `a`: no label `y7`"));
  EXPECT_THAT(Refusal("lr {} | name: 'a' label: 'y0' given: 'z'"), HasSubstr("no label `z`"));
  EXPECT_THAT(Refusal("lr {} | name: 'a' label: 'y0' weight: 0"), HasSubstr("weight must be"));
  EXPECT_THAT(Refusal("lr {} | name: 'a' label: 'y0' loss { focal { alpha: 1 } }"),
              HasSubstr("alpha between 0 and 1"));
  EXPECT_THAT(Refusal("lr {} | name: 'a' label: 'y0' loss { log { positive_weight: 0 } }"),
              HasSubstr("positive_weight must be more than 0"));
  EXPECT_THAT(Refusal("lr {} | name: 'a' label: 'y0' loss { sampled_softmax {} }"),
              HasSubstr("sampled_softmax needs two towers"));
}

TEST(Tasks, ExpertModelsRefuseWhatIsNoExpert) {
  EXPECT_THAT(Refusal("mmoe {}"), HasSubstr("model mmoe: expert needs hidden"));
  EXPECT_THAT(Refusal("mmoe { experts: 0 expert { hidden: 4 } }"),
              HasSubstr("experts must be in 1..256"));
  EXPECT_THAT(Refusal("ple { levels: 0 expert { hidden: 4 } }"),
              HasSubstr("levels must be in 1..16"));
}

TEST(Tasks, TwoTowersRefuseFeaturesThatAreInNoneOrBoth) {
  const std::string rest = " item: 'f10' item: 'f11' item: 'r0' item: 'r1' tower { hidden: 3 } }";
  EXPECT_THAT(Refusal("dssm { user: 'f00'" + rest),
              HasSubstr("feature `f01` must be in one tower: list it in user or in item"));
  EXPECT_THAT(Refusal("dssm { user: 'f00' user: 'f01' user: 'r0'" + rest),
              HasSubstr("feature `r0` must be in one tower"));
  EXPECT_THAT(Refusal("dssm { user: 'f00' user: 'f01' user: 'who'" + rest),
              HasSubstr("user: no feature `who`"));
  EXPECT_THAT(Refusal("dssm { user: 'f00' user: 'f01'" + rest +
                      " | name: 'a' label: 'y0' loss { sampled_softmax { item: 'r0' } }"),
              HasSubstr("no id feature `r0`"));
}

TEST(Tasks, SampledSoftmaxRefusesWhatItCannotDraw) {
  auto refusal = [](const std::string& options) {
    return Refusal("lr {} | name: 'a' label: 'y0' loss { sampled_softmax { " + options + " } }");
  };
  EXPECT_THAT(refusal("item: 'f01' negatives: -1"), HasSubstr("negatives must be at least 0"));
  EXPECT_THAT(refusal("item: 'f01' sampler: FREQUENCY"), HasSubstr("say how many"));
  EXPECT_THAT(refusal("negatives: 4"), HasSubstr("need item"));
  EXPECT_THAT(refusal("streaming {}"), HasSubstr("need item"));
  EXPECT_THAT(refusal("item: 'f01' streaming { rate: 0 }"), HasSubstr("streaming.rate must be"));
  EXPECT_THAT(refusal("item: 'f01' streaming { buckets: 0 }"), HasSubstr("streaming.buckets must"));
}

TEST(Tasks, AWeightOfZeroIsARowThatTeachesNothing) {
  World world = MakeWorld("fm {} | name: 'a' label: 'y0'", {.rows = 8, .requests = false});
  auto network = MakeNetwork(world.spec);
  const auto params = RandomParams(*network, 3);
  std::fill(world.batch.weights.begin() + 4, world.batch.weights.end(), 0.0f);
  auto before = RunTrain(*network, world, params);
  for (int i = 4; i < 8; ++i) world.batch.labels[2 * i] = 1 - world.batch.labels[2 * i];
  auto after = RunTrain(*network, world, params);
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(before->loss, after->loss);
  EXPECT_EQ(before->param_grads, after->param_grads);
  EXPECT_EQ(before->row_grads, after->row_grads);
}

TEST(Tasks, LossIsTheWeightedSumOfTheTasks) {
  auto loss = [](const char* weight_a, const char* weight_b) {
    const World world = MakeWorld(
        absl::StrCat("mmoe { expert { hidden: 4 } } | name: 'a' label: 'y0' weight: ", weight_a,
                     " | name: 'b' label: 'y1' weight: ", weight_b),
        {});
    auto network = MakeNetwork(world.spec);
    return RunTrain(*network, world, RandomParams(*network, 2))->loss;
  };
  const double a = loss("2", "1") - loss("1", "1"), b = loss("1", "2") - loss("1", "1");
  EXPECT_NEAR(loss("3", "0.5"), 3 * a + 0.5 * b, 1e-6);
  EXPECT_NE(a, b);
}

TEST(Tasks, ABatchOfOneLabelDoesNotFitTwo) {
  World world = MakeWorld(std::string("mmoe { expert { hidden: 4 } }") + kTwo, {});
  auto network = MakeNetwork(world.spec);
  world.batch.labels.resize(world.batch.rows);
  auto result = RunTrain(*network, world, RandomParams(*network, 2));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("labels: 9 given, 18 expected"));
}

}  // namespace
}  // namespace starling
