// Ops on the positions of sequences, by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "dense_net/ops.h"
#include "dense_net/step_run.h"

namespace starling {
namespace {

// Rows of 2, 0 and 3 events; the tile is rows 1 and 2 of the batch.
struct SequenceOpsTest : testing::Test {
  SequenceOpsTest() {
    step.device = &CpuDevice();
    step.positions = positions;
    tile.step = &step;
    tile.batch_first = 1;
    tile.batch_rows = tile.rows = 2;
    tile.in[0] = x.data();
    tile.out = out.data();
    tile.out_grad = g.data();
    tile.in_grad[0] = in_grad.data();
    events = SequenceInput(&builder, "events", {Slot2()});
  }
  static SlotSpec Slot2() {
    SlotSpec slot;
    slot.set_embedding_dim(2);
    return slot;
  }
  std::vector<Real> Pool(SequencePooling kind) {
    const Value value = SequencePool(&builder, "pool", events, kind);
    EXPECT_EQ(value.sequence, -1);
    op = builder.graph().ops[value.id].get();
    op->Forward(tile);
    return {out.begin(), out.begin() + 4};
  }
  std::vector<Real> PoolGrad(SequencePooling kind) {
    Pool(kind);
    op->Backward(tile);
    return in_grad;
  }

  GraphBuilder builder;
  Value events;
  std::vector<std::vector<int64_t>> positions = {{0, 2, 2, 5}};
  Step step;
  OpTile tile;
  const Op* op = nullptr;
  std::vector<Real> x = {1, -8, 4, -6, 1, -7};  // Three positions of two floats.
  std::vector<Real> out = std::vector<Real>(6, 99), in_grad = std::vector<Real>(6, 99);
  std::vector<Real> g = {50, 50, 3, 6};
};

using Reals = std::vector<Real>;

TEST_F(SequenceOpsTest, PoolingTakesTheEventsThereAre) {
  EXPECT_EQ(Pool(SequencePooling::kSum), (Reals{0, 0, 6, -21}));
  EXPECT_EQ(Pool(SequencePooling::kMean), (Reals{0, 0, 2, -7}));
  EXPECT_EQ(Pool(SequencePooling::kMax), (Reals{0, 0, 4, -6}));
  EXPECT_EQ(Pool(SequencePooling::kLast), (Reals{0, 0, 1, -7}));
}

TEST_F(SequenceOpsTest, PoolingGivesGradientsBack) {
  EXPECT_EQ(PoolGrad(SequencePooling::kSum), (Reals{3, 6, 3, 6, 3, 6}));
  EXPECT_EQ(PoolGrad(SequencePooling::kMean), (Reals{1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(PoolGrad(SequencePooling::kMax), (Reals{0, 0, 3, 6, 0, 0}));
  EXPECT_EQ(PoolGrad(SequencePooling::kLast), (Reals{0, 0, 0, 0, 3, 6}));
  tile.in_add[0] = true;
  EXPECT_EQ(PoolGrad(SequencePooling::kMax), (Reals{0, 0, 3, 6, 3, 6}));
}

TEST_F(SequenceOpsTest, MaximumKeepsANan) {
  x[2] = NAN;
  EXPECT_TRUE(std::isnan(Pool(SequencePooling::kMax)[2]));
}

TEST_F(SequenceOpsTest, SoftmaxSumsToOneInEachRow) {
  const Value one = SequencePool(&builder, "unused", events, SequencePooling::kSum);
  Value scores = events;
  scores.width = 1;
  EXPECT_EQ(one.width, 2);
  const Value value = SequenceSoftmax(&builder, "softmax", scores);
  EXPECT_EQ(value.sequence, 0);
  std::vector<Real> logits = {1000, 1000, 0};  // No overflow.
  tile.in[0] = logits.data();
  tile.rows = 3;
  builder.graph().ops[value.id]->Forward(tile);
  EXPECT_EQ(Reals(out.begin(), out.begin() + 3), (Reals{0.5, 0.5, 0}));
}

// Rows of 2 and 1 events: the one pair is the first row's, and the only event of
// another row is the second's.
TEST(AuxiliaryLossTest, StatesPointToTheNextEventAndAwayFromAnotherRows) {
  GraphBuilder builder;
  SlotSpec slot;
  slot.set_embedding_dim(2);
  const Value events = SequenceInput(&builder, "events", {slot});
  AuxiliaryLoss(&builder, "auxiliary", events, events, 3);
  const Op& op = *builder.graph().ops[1];
  EXPECT_TRUE(op.is_loss());

  Batch batch;
  batch.rows = 2;
  const std::vector<std::vector<int64_t>> positions = {{0, 2, 3}};
  double loss = 0.5;  // Of another op.
  JointBatch joint;
  MeasureBatch(batch, positions, 2, &joint);
  const int first_tiles[] = {0};
  Step step;
  step.device = &CpuDevice();
  step.share.joint = &joint;
  step.share.first_tiles = first_tiles;
  step.batch = &batch;
  step.positions = positions;
  step.training = true;
  step.tile_loss = &loss;
  const std::vector<Real> h = {1, 2, 9, 9, 9, 9}, e = {9, 9, 0.5, 0.25, -1, 0.25};
  std::vector<Real> out(3), dh(6, 7), de(6, 7);
  Real state = 0;
  std::vector<double> scratch(op.ScratchFloats(3));
  OpTile tile;
  tile.scratch = reinterpret_cast<Real*>(scratch.data());
  tile.step = &step;
  tile.batch_rows = 2;
  tile.rows = 3;
  tile.in = {h.data(), e.data()};
  tile.in_grad = {dh.data(), de.data()};
  tile.out = out.data();
  tile.state = &state;
  op.Prepare(step, &state);
  op.Forward(tile);
  // The products are 1 and -0.5.
  const double want = std::log1p(std::exp(-1.0)) + std::log1p(std::exp(-0.5));
  EXPECT_NEAR((loss - 0.5) / batch.rows, 3 * want, 1e-6);
  op.Backward(tile);
  const double next = 1 / (1 + std::exp(-1.0)) - 1, other = 1 / (1 + std::exp(0.5));
  EXPECT_NEAR(dh[0], 3 * (next * 0.5 + other * -1), 1e-6);
  EXPECT_NEAR(dh[1], 3 * (next * 0.25 + other * 0.25), 1e-6);
  EXPECT_EQ(dh[2], 0);
  EXPECT_EQ(de[0], 0);
  EXPECT_NEAR(de[3], 3 * next * 2, 1e-6);
  EXPECT_NEAR(de[5], 3 * other * 2, 1e-6);

  step.training = false;  // Scoring neither needs nor touches it.
  op.Forward(tile);
  EXPECT_NEAR((loss - 0.5) / batch.rows, 3 * want, 1e-6);
}

}  // namespace
}  // namespace starling
