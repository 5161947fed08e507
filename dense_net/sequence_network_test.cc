// What a network promises of sequences: no other row's matter, none at all is
// fine, and what does not fit is refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "dense_net/test_world.h"

namespace starling {
namespace {

using testing::HasSubstr;

constexpr char kDin[] =
    "din { attention { sequence: 's0' sequence: 's1' target: 'f00' target: 'f10' } "
    "attention_hidden: 7 hidden: 9 }";
constexpr char kDien[] =
    "dien { attention { sequence: 's0' target: 'f00' } attention { sequence: 's1' target: 'f11' } "
    "attention_hidden: 7 hidden: 9 }";

// Every row but `kept` gets `length` events.
void Lengthen(uint32_t kept, uint32_t length, Batch* batch) {
  for (TableIds& table : batch->tables) {
    Slot& slot = table.slots[2];
    const Slot before = slot;
    slot.offsets.assign(1, 0);
    slot.index.clear();
    for (uint32_t r = 0; r < batch->rows; ++r) {
      const uint32_t begin = before.offsets[r], end = before.offsets[r + 1];
      for (uint32_t i = 0; i < (r == kept ? end - begin : length); ++i) {
        slot.index.push_back(r == kept ? before.index[begin + i] : (r + i) % table.ids.size());
      }
      slot.offsets.push_back(static_cast<uint32_t>(slot.index.size()));
    }
  }
}

TEST(SequenceNetwork, LongerSequencesAroundARowChangeNoBitOfItsScore) {
  for (const char* model : {kDin, kDien}) {
    World world = MakeWorld(model, {.rows = 30, .requests = false});
    auto network = MakeNetwork(world.spec);
    const std::vector<Real> params = RandomParams(*network, 3);
    const std::vector<Real> scores = RunScore(*network, world.batch, world.rows, params);
    for (uint32_t row : {0u, 7u, 29u}) {
      for (uint32_t length : {0u, 1u, 40u}) {
        Batch around = world.batch;
        Lengthen(row, length, &around);
        EXPECT_EQ(RunScore(*network, around, world.rows, params)[row], scores[row]) << model;
      }
    }
  }
}

TEST(SequenceNetwork, ABatchWithoutAnyEventTrains) {
  for (const char* model : {kDin, kDien}) {
    World world = MakeWorld(model, {.rows = 20, .requests = false});
    Lengthen(world.batch.rows, 0, &world.batch);
    LinkOccurrences(&world.batch);
    auto network = MakeNetwork(world.spec, {.tile = 8});
    auto result = RunTrain(*network, world, RandomParams(*network, 3));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(std::isfinite(result->loss));
    for (const ParamSpec& spec : network->params()) {
      if (!spec.name.starts_with("attention")) continue;
      for (int64_t i = 0; i < spec.size(); ++i) {
        EXPECT_EQ(result->param_grads[spec.offset + i], 0) << spec.name;
      }
    }
  }
}

std::string CreateError(GraphSpec spec, const std::string& model) {
  *spec.mutable_model() = ParseModel(model);
  return std::string(Network::Create(spec, {}).status().message());
}

TEST(SequenceNetwork, AttentionThatDoesNotFitIsRefusedByName) {
  const GraphSpec spec = MakeWorld(kDin, {}).spec;
  EXPECT_THAT(CreateError(spec, "din {}"), HasSubstr("attention lists no sequence"));
  EXPECT_THAT(CreateError(spec, "din { attention { sequence: 's0' target: 'x' } }"),
              HasSubstr("model din: attention[0]: target `x` is not an id feature"));
  EXPECT_THAT(CreateError(spec, "din { attention { sequence: 'f00' target: 'f01' } }"),
              HasSubstr("sequence `f00` is pooled"));
  EXPECT_THAT(CreateError(spec, "din { attention { sequence: 's0' target: 's1' } }"),
              HasSubstr("target `s1` is a sequence"));
  EXPECT_THAT(CreateError(spec, "dien { attention { sequence: 's0' } }"),
              HasSubstr("as many of target as of sequence: 1 and 0"));
  EXPECT_THAT(CreateError(spec, "dien { attention { sequence: 's0' target: 'f00' } }"),
              HasSubstr("sequence `s1` is read by no entry of attention"));
  EXPECT_THAT(CreateError(spec, "dnn { hidden: 3 }"),
              HasSubstr("feature `s0`: is a sequence, which this model reads pooled only"));
  EXPECT_THAT(CreateError(spec, std::string(kDin).replace(5, 0, " attention_hidden: 0 ")),
              HasSubstr("attention_hidden[0] must be in 1..65536"));
  GraphSpec narrow = spec;
  narrow.mutable_slots(0)->set_embedding_dim(2);
  EXPECT_THAT(CreateError(narrow, kDin),
              HasSubstr("dim 3 of `s0` differs from dim 2 of its target `f00`"));
  GraphSpec apart = spec;
  apart.mutable_slots(5)->set_sequence(1);
  EXPECT_THAT(CreateError(apart, kDin), HasSubstr("`s1` and `s0` are of different sequences"));
}

TEST(SequenceNetwork, BatchesThatDoNotFitAreRefused) {
  World world = MakeWorld(kDin, {.requests = false});
  auto network = MakeNetwork(world.spec);
  const std::vector<Real> params = RandomParams(*network, 3);
  auto error = [&](const World& bad) {
    return std::string(RunTrain(*network, bad, params).status().message());
  };
  World pooled = world;
  pooled.batch.tables[0].slots[2].axis = Axis::kRow;
  EXPECT_THAT(error(pooled), HasSubstr("`s0` is pooled, but the model reads its positions"));
  World positions = world;
  positions.batch.tables[0].slots[0].axis = Axis::kPosition;
  EXPECT_THAT(error(positions), HasSubstr("`f00` is a sequence, but the model reads it pooled"));
  World shorter = world;
  Slot& slot = shorter.batch.tables[1].slots[2];
  --slot.offsets.back();
  EXPECT_THAT(error(shorter), HasSubstr("sequences `s0` and `s1` are read side by side"));
}

}  // namespace
}  // namespace starling
