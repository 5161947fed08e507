// Models put together from blocks.
#include <gtest/gtest.h>

#include "dense_net/models.h"
#include "dense_net/test_world.h"

namespace starling {
namespace {

constexpr char kCross[] = R"(custom {
  blocks { name: 'cross' from: 'embedding' from: 'raw' cross { layers: 2 } }
  blocks { name: 'mlp' from: 'embedding' from: 'raw' mlp { hidden: 6 hidden: 5 } }
  blocks { name: 'logit' from: 'cross' from: 'mlp' linear {} }
  outputs: 'logit' })";

// Parameters start by their names alone, so equal names make equal models.
TEST(CustomModel, EqualsTheModelThatItSpellsOut) {
  const World custom = MakeWorld(kCross, {.rows = 20});
  const World known = MakeWorld("dcnv2 { cross_layers: 2 hidden: 6 hidden: 5 }", {.rows = 20});
  auto a = MakeNetwork(custom.spec), b = MakeNetwork(known.spec);
  ASSERT_EQ(a->param_floats(), b->param_floats());
  std::vector<Real> params(a->param_floats());
  a->InitParams(params);
  const std::vector<Real> scores = RunScore(*a, custom.batch, custom.rows, params);
  b->InitParams(params);
  EXPECT_EQ(scores, RunScore(*b, known.batch, known.rows, params));
}

TEST(CustomModel, FirstOrderIsInTheRowsOnlyIfABlockReadsIt) {
  EXPECT_FALSE(NeedsOf(ParseModel(kCross)).linear);
  EXPECT_TRUE(NeedsOf(ParseModel("custom { blocks { name: 'sum' from: 'first_order' add {} } "
                                 "outputs: 'sum' }"))
                  .linear);
}

std::string ErrorOf(const std::string& blocks) {
  const World world = MakeWorld("custom { " + blocks + " }", {});
  return std::string(Network::Create(world.spec, {}).status().message());
}

TEST(CustomModel, ErrorsNameTheBlockAndWhatToDo) {
  EXPECT_EQ(ErrorOf("blocks { name: 'a' from: 'deep' linear {} } outputs: 'a'"),
            "model custom: block `a`: nothing before it is called `deep`; there is embedding, raw");
  EXPECT_EQ(ErrorOf("blocks { name: 'a' from: 'raw' } outputs: 'a'"),
            "model custom: block `a`: no kind; name one, as in {mlp: {hidden: [64]}}");
  EXPECT_EQ(ErrorOf("blocks { name: 'a' linear {} } outputs: 'a'"),
            "model custom: block `a`: `from` names nothing");
  EXPECT_EQ(ErrorOf("blocks { name: 'raw' from: 'raw' linear {} } outputs: 'raw'"),
            "model custom: block `raw`: `raw`: a name must be new and not empty");
  EXPECT_EQ(ErrorOf("blocks { name: 'a' from: 'raw' fm {} } outputs: 'a'"),
            "model custom: block `a`: needs two embeddings or more of one dim: read `embedding` or "
            "an input of id features");
  EXPECT_EQ(ErrorOf("blocks { name: 'a' from: 'raw' from: 'embedding' add {} } outputs: 'a'"),
            "model custom: block `a`: `raw` has width 2, `embedding` 12");
  EXPECT_EQ(ErrorOf("blocks { name: 'a' from: 'raw' mlp { hidden: 3 } } outputs: 'a'"),
            "model custom: output `a` has width 3, not 1; put {linear: {width: 1}} behind it");
  EXPECT_EQ(ErrorOf("blocks { name: 'a' from: 'raw' linear {} }"),
            "model custom: 0 outputs for 1 tasks; name one a task");
  EXPECT_EQ(ErrorOf("inputs { name: 'u' features: 'f99' } "
                    "blocks { name: 'a' from: 'u' linear {} } outputs: 'a'"),
            "model custom: input `u`: no feature `f99`");
}

}  // namespace
}  // namespace starling
