#include <gtest/gtest.h>

#include "dense_net/ops.h"
#include "dense_net/real.h"

namespace starling {
namespace {

// Two rows of 1..4 and 5..8 through columns {3}, {0, 1}, {1}.
struct ColumnsTest : testing::Test {
  ColumnsTest() {
    const Value x = RawInput(&builder, 4);
    const Value y = Columns(&builder, "some", x, {{3, 1}, {0, 2}, {1, 1}});
    graph = builder.Finish();
    EXPECT_EQ(y.width, 4);
    step.device = &CpuDevice();
    tile.step = &step;
    tile.rows = 2;
    tile.in[0] = in.data();
    tile.out = out.data();
    tile.out_grad = g.data();
    tile.in_grad[0] = in_grad.data();
  }
  GraphBuilder builder;
  Graph graph;
  std::vector<Real> in = {1, 2, 3, 4, 5, 6, 7, 8}, out = std::vector<Real>(8);
  std::vector<Real> g = {1, 10, 100, 1000, 2, 20, 200, 2000}, in_grad = std::vector<Real>(8, 7);
  Step step;
  OpTile tile;
};

TEST_F(ColumnsTest, PicksRangesInTheirOrder) {
  graph.ops[1]->Forward(tile);
  EXPECT_EQ(out, (std::vector<Real>{4, 1, 2, 2, 8, 5, 6, 6}));
}

TEST_F(ColumnsTest, BackwardSumsRangesThatOverlapAndZeroesTheRest) {
  graph.ops[1]->Backward(tile);
  EXPECT_EQ(in_grad, (std::vector<Real>{10, 1100, 0, 1, 20, 2200, 0, 2}));
}

TEST_F(ColumnsTest, BackwardAddsToAGradientThatIsThere) {
  tile.in_add[0] = true;
  graph.ops[1]->Backward(tile);
  EXPECT_EQ(in_grad, (std::vector<Real>{17, 1107, 7, 8, 27, 2207, 7, 9}));
}

}  // namespace
}  // namespace starling
