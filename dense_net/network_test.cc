// What forward.h promises beyond gradients and equal scores.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <new>

#include "base/random.h"
#include "dense_net/test_world.h"

namespace {
std::atomic<int64_t> allocations{0};
void* Allocate(size_t size, size_t align) {
  ++allocations;
  void* p = std::aligned_alloc(align, (size + align - 1) / align * align);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
}  // namespace

// Every way to allocate in this program is counted. At -O1 GCC inlines one half
// of a pair and takes it for a mismatch.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(size_t size) { return Allocate(size, alignof(std::max_align_t)); }
void* operator new[](size_t size) { return Allocate(size, alignof(std::max_align_t)); }
void* operator new(size_t size, std::align_val_t a) { return Allocate(size, size_t(a)); }
void* operator new[](size_t size, std::align_val_t a) { return Allocate(size, size_t(a)); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return Allocate(size, alignof(std::max_align_t));
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return Allocate(size, alignof(std::max_align_t));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { std::free(p); }

namespace starling {
namespace {

using testing::HasSubstr;

const ParamSpec& Param(const Network& network, const std::string& name) {
  for (const ParamSpec& spec : network.params()) {
    if (spec.name == name) return spec;
  }
  ADD_FAILURE() << "no parameter " << name;
  std::abort();
}

TEST(Network, WarmStepAllocatesNothing) {
  for (const char* model :
       {"lr {}",
        "fm {}",
        "fwfm {}",
        "wide_deep { hidden: 8 activation: PRELU }",
        "deepfm { hidden: 20 hidden: 9 dropout: 0.2 }",
        "nfm { hidden: 8 activation: GELU }",
        "dcn { cross_layers: 2 hidden: 8 }",
        "dcnv2 { cross_layers: 2 hidden: 8 batch_norm: true }",
        "dcnv2 { cross_layers: 2 rank: 3 experts: 2 }",
        "dnn { hidden: 8 residual { kind: GROUPED } layer_norm: true }",
        "dnn { hidden: 8 activation: DICE }",
        "dlrm { bottom: 8 hidden: 8 }",
        "xdeepfm { cin: 4 hidden: 8 }",
        "autoint { attention_dim: 6 heads: 2 hidden: 8 }",
        "pnn { hidden: 8 }",
        "pnn { hidden: 8 product: OUTER }",
        "pnn { hidden: 8 product: BILINEAR }",
        "finalmlp { mlp1 { hidden: 6 } mlp2 { hidden: 4 } heads: 2 gate1: 'f00' gate_hidden: 3 }",
        "din { attention { sequence: 's0' sequence: 's1' target: 'f00' target: 'f10' } "
        "attention_softmax: true hidden: 8 }",
        "dien { attention { sequence: 's0' target: 'f00' } "
        "attention { sequence: 's1' target: 'f10' } hidden: 8 }",
        "dnn { hidden: 4 } | name: 'a' label: 'y0' loss { focal {} }",
        "dnn { hidden: 4 } | name: 'a' label: 'y0' loss { mse {} }",
        "dnn { hidden: 4 } | name: 'a' label: 'y0' loss { pairwise {} }",
        "esmm { hidden: 4 } | name: 'a' label: 'y0' | name: 'b' label: 'y1'",
        "mmoe { expert { hidden: 4 } } | name: 'a' label: 'y0' | name: 'b' label: 'y1'",
        "ple { expert { hidden: 4 } } | name: 'a' label: 'y0' | name: 'b' label: 'y1'",
        "dssm { user: 'f00' user: 'r0' item: 'f01' item: 'f10' item: 'f11' item: 'r1' "
        "tower { hidden: 5 } } | name: 'a' label: 'y1' loss { sampled_softmax { item: 'f01' } }",
        "dssm { user: 'f00' user: 'r0' item: 'f01' item: 'f10' item: 'f11' item: 'r1' "
        "tower { hidden: 5 } } | name: 'a' label: 'y1' loss { sampled_softmax { item: 'f01' "
        "negatives: 20 sampler: LOG_UNIFORM streaming { buckets: 50 } } }"}) {
    World world = MakeWorld(model, {.rows = 300});
    auto network = MakeNetwork(world.spec, {.tile = 64, .lanes = 2});
    const std::vector<float> params = RandomParams(*network, 1);
    std::vector<std::span<const float>> rows(world.rows.begin(), world.rows.end());
    std::vector<std::vector<float>> grads = world.rows;
    std::vector<std::span<float>> grad_spans(grads.begin(), grads.end());
    std::vector<float> scores(300 * network->outputs().size()), param_grads(params.size());
    auto workspace = network->NewWorkspace();
    ThreadPool pool(1);
    auto step = [&] {
      ASSERT_TRUE(network
                      ->Train(world.batch, rows, params, 1, &pool, workspace.get(), scores,
                              grad_spans, param_grads)
                      .ok());
      ASSERT_TRUE(network->Score(world.batch, rows, params, &pool, workspace.get(), scores).ok());
    };
    step();
    const int64_t before = allocations;
    step();
    EXPECT_EQ(allocations - before, 0) << model;
  }
}

TEST(Network, LossNotFiniteNamesTheFirstSuchOp) {
  World world = MakeWorld("deepfm { hidden: 4 hidden: 3 batch_norm: true }", {.rows = 20});
  auto network = MakeNetwork(world.spec, {.tile = 8});
  std::vector<float> params = RandomParams(*network, 1);
  params[Param(*network, "mlp.1.weight").offset] = std::numeric_limits<float>::quiet_NaN();
  auto result = RunTrain(*network, world, params);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("`mlp.1`"));

  params = RandomParams(*network, 1);
  const uint32_t used = world.batch.tables[0].slots[0].index[7];
  world.rows[0][used * world.spec.table_width(0) + 1] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(std::string(RunTrain(*network, world, params).status().message()),
              HasSubstr("`embedding`"));

  world = MakeWorld("lr {}", {.rows = 20});
  network = MakeNetwork(world.spec);
  world.batch.dense[7] = std::numeric_limits<float>::quiet_NaN();
  params = RandomParams(*network, 1);
  EXPECT_THAT(std::string(RunTrain(*network, world, params).status().message()),
              HasSubstr("`raw`"));
}

TEST(Network, BatchNormMovesRunningStatisticsAsPyTorch) {
  // A dnn on one raw feature x, first layer of width one: y = w x + b.
  World world;
  *world.spec.mutable_model() = ParseModel("dnn { hidden: 1 batch_norm: true }");
  world.spec.add_raws("x");
  world.batch.rows = 5;
  world.batch.dense = {1, 2, 4, 8, 10};
  world.batch.labels = {0, 1, 0, 1, 1};
  auto network = MakeNetwork(world.spec, {.tile = 2, .lanes = 2});
  std::vector<float> params(network->param_floats());
  network->InitParams(params);
  params[Param(*network, "mlp.0.weight").offset] = 2;
  params[Param(*network, "mlp.0.bias").offset] = 1;
  auto result = RunTrain(*network, world, params);
  ASSERT_TRUE(result.ok()) << result.status();
  // y = 3, 5, 9, 17, 21: mean 11, unbiased variance (64 + 36 + 4 + 36 + 100) / 4 = 60.
  const ParamSpec& mean = Param(*network, "mlp.0.norm.running_mean");
  const ParamSpec& variance = Param(*network, "mlp.0.norm.running_var");
  EXPECT_TRUE(mean.statistic && variance.statistic);
  EXPECT_FALSE(mean.decay || variance.decay);
  EXPECT_NEAR(result->param_grads[mean.offset], 0.1 * (11 - 0), 1e-6);
  EXPECT_NEAR(result->param_grads[variance.offset], 0.1 * (60 - 1), 1e-5);
  // Scoring uses the running values: with mean 0 and variance 1, y passes unchanged.
  params[Param(*network, "mlp.logit.weight").offset] = 0.125f;
  const float score = RunScore(*network, world.batch, {}, params)[2];
  EXPECT_NEAR(score, 1 / (1 + std::exp(-9.0 / std::sqrt(1 + 1e-5) / 8)), 1e-6);
}

TEST(Network, DropoutFollowsTheStepSeedAndIsOffWhenScoring) {
  World plain = MakeWorld("dnn { hidden: 64 }", {.rows = 40});
  World dropped = MakeWorld("dnn { hidden: 64 dropout: 0.5 }", {.rows = 40});
  auto network = MakeNetwork(dropped.spec);
  const std::vector<float> params = RandomParams(*network, 2);
  const auto a = RunTrain(*network, dropped, params, 1), b = RunTrain(*network, dropped, params, 1);
  const auto c = RunTrain(*network, dropped, params, 2);
  EXPECT_EQ(a->scores, b->scores);
  EXPECT_NE(a->scores, c->scores);
  // Other tiles, same masks.
  EXPECT_EQ(RunTrain(*MakeNetwork(dropped.spec, {.tile = 7}), dropped, params, 1)->scores,
            a->scores);
  EXPECT_EQ(RunScore(*network, dropped.batch, dropped.rows, params),
            RunScore(*MakeNetwork(plain.spec), plain.batch, plain.rows, params));
  // Over many steps the mean logit is that of no dropout (the last layer is linear).
  auto logit = [](float p) { return std::log(p / (1 - p)); };
  double mean = 0;
  constexpr int kSteps = 2000;
  for (int s = 0; s < kSteps; ++s) {
    mean += logit(RunTrain(*network, dropped, params, s)->scores[0]) / kSteps;
  }
  const double expected = logit(RunScore(*network, dropped.batch, dropped.rows, params)[0]);
  EXPECT_NEAR(mean, expected, 0.15);
}

TEST(Network, ParametersFollowTheSeedAlone) {
  World world = MakeWorld("deepfm { hidden: 40 hidden: 30 batch_norm: true }", {});
  auto network = MakeNetwork(world.spec);
  std::vector<float> a(network->param_floats(), -1), b(a.size(), 1), c(a.size());
  network->InitParams(a);
  MakeNetwork(world.spec, {.tile = 3})->InitParams(b);
  EXPECT_EQ(a, b);
  world.spec.set_seed(99);
  MakeNetwork(world.spec)->InitParams(c);
  EXPECT_NE(a, c);
  const ParamSpec& weight = Param(*network, "mlp.1.weight");
  EXPECT_EQ(weight.rows, 40);
  EXPECT_EQ(weight.cols, 30);
  double squares = 0;
  for (int64_t i = 0; i < weight.size(); ++i) squares += std::pow(a[weight.offset + i], 2);
  EXPECT_NEAR(std::sqrt(squares / weight.size()), std::sqrt(2.0 / 70), 0.01);
  EXPECT_EQ(a[Param(*network, "mlp.0.bias").offset], 0);
  EXPECT_EQ(a[Param(*network, "mlp.0.norm.scale").offset], 1);
  EXPECT_TRUE(weight.decay);
  EXPECT_FALSE(Param(*network, "mlp.0.bias").decay);
}

TEST(Network, CountsGemmFlops) {
  World world = MakeWorld("dnn { hidden: 10 hidden: 5 }", {.dim = 4, .raws = 3});
  auto network = MakeNetwork(world.spec);
  EXPECT_EQ(network->gemm_flops_forward(), 2.0 * (19 * 10 + 10 * 5 + 5));
  EXPECT_EQ(network->gemm_flops_train(), 6.0 * (19 * 10 + 10 * 5 + 5));
}

// 4 slots of dim 4 and 3 raws; what each op does to a row is written out.
TEST(Network, CountsWhatOtherOpsDo) {
  const std::pair<const char*, double> cases[] = {
      {"lr {}", (4 + 1) + 1 /* raws + ids */ + 1 /* score */},
      {"fm {}", 16 + (4 + 1) + 2 + (3 * 16 + 3 * 4 + 1) + 1},
      // Pooling, then bias, norm and activation of each layer, the logit's bias, the score.
      {"dnn { hidden: 10 hidden: 5 }", 16 + 2 * 10 + 2 * 5 + 1 + 1},
      {"dnn { hidden: 10 batch_norm: true dropout: 0.5 }", 16 + (1 + 2 + 1) * 10 + 1 + 1},
      {"dnn { hidden: 10 layer_norm: true activation: GELU }", 16 + (1 + 7 + 5) * 10 + 1 + 1},
      // Cross layers of width 19: bias, product and sum; the logit reads both parts.
      {"dcnv2 { cross_layers: 2 }", 16 + 2 * (1 + 2) * 19 + 1 + 1},
      {"nfm { hidden: 10 }", 16 + (4 + 1) + 1 + (3 * 16 + 3 * 4) + 2 * 10 + 1 + 1 + 1},
      {"autoint { attention_layers: 1 heads: 2 attention_dim: 6 }",
       16 + 2 * 4 * 4 * 6 /* softmax, scaled */ + 2 * 4 * 6 /* residual, ReLU */ + 1 + 1},
  };
  for (const auto& [model, count] : cases) {
    auto network = MakeNetwork(MakeWorld(model, {.dim = 4, .raws = 3}).spec);
    EXPECT_EQ(network->element_flops_forward(), count) << model;
    EXPECT_EQ(network->element_flops_train(), 3 * count) << model;
  }
}

TEST(Network, RefusesWhatIsNotAModel) {
  auto refusal = [](const GraphSpec& spec) {
    auto network = Network::Create(spec, {});
    EXPECT_EQ(network.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(network.status().message());
  };
  const GraphSpec good = MakeWorld("deepfm { hidden: 4 }", {}).spec;
  GraphSpec spec = good;
  spec.clear_model();
  EXPECT_THAT(refusal(spec), HasSubstr("choose one of lr, fm"));
  spec = good;
  spec.mutable_slots(2)->set_embedding_dim(2);
  EXPECT_THAT(refusal(spec), HasSubstr("`f10`: dim 2 differs from dim 3 of `f00`"));
  spec = good;
  spec.clear_slots();
  EXPECT_THAT(refusal(spec), HasSubstr("at least one id feature"));
  spec.clear_raws();
  EXPECT_THAT(refusal(spec), HasSubstr("no feature"));
  spec = good;
  spec.mutable_slots(0)->clear_linear_offset();
  EXPECT_THAT(refusal(spec), HasSubstr("`f00`: its rows hold no first-order weight"));
  spec = good;
  spec.mutable_slots(0)->set_embedding_offset(2);
  EXPECT_THAT(refusal(spec), HasSubstr("no embedding"));
  spec = good;
  spec.mutable_model()->mutable_deepfm()->set_dropout(1);
  EXPECT_THAT(refusal(spec), HasSubstr("dropout must be at least 0 and less than 1"));
  spec.mutable_model()->mutable_deepfm()->set_hidden(0, 0);
  EXPECT_THAT(refusal(spec), HasSubstr("hidden[0] must be in 1..65536"));
}

TEST(Network, RefusesOptionsThatMakeNoModel) {
  auto refusal = [](const char* model) {
    auto network = Network::Create(MakeWorld(model, {}).spec, {});
    EXPECT_EQ(network.status().code(), absl::StatusCode::kInvalidArgument) << model;
    return std::string(network.status().message());
  };
  EXPECT_THAT(refusal("dcn { cross_layers: 0 }"), HasSubstr("dcn: cross_layers must be in 1..64"));
  EXPECT_THAT(refusal("dcn { hidden: -1 }"), HasSubstr("dcn: hidden[0] must be in 1..65536"));
  EXPECT_THAT(refusal("nfm { dropout: 1 }"),
              HasSubstr("nfm: dropout must be at least 0 and less than 1"));
  EXPECT_THAT(refusal("nfm { batch_norm: true layer_norm: true }"), HasSubstr("choose one"));
  EXPECT_THAT(
      refusal("dnn { hidden: 6 residual { kind: GROUPED } }"),
      HasSubstr(
          "dnn: residual: groups must divide every width of hidden, and 4 does not divide 6"));
  EXPECT_THAT(refusal("dnn { hidden: 6 residual { blocks: 0 } }"),
              HasSubstr("residual: blocks must be in 1..64"));
  EXPECT_THAT(refusal("dcnv2 { rank: -1 }"), HasSubstr("rank must be in 0..65536"));
  EXPECT_THAT(refusal("dcnv2 { rank: 1 experts: 0 }"), HasSubstr("experts must be in 1..64"));
  EXPECT_THAT(refusal("din { attention_hidden: 0 }"), HasSubstr("attention_hidden[0] must be in"));
  EXPECT_THAT(refusal("pnn { hidden: 0 }"), HasSubstr("pnn: hidden[0] must be in 1..65536"));
  EXPECT_THAT(refusal("pnn {}"), HasSubstr("model pnn needs hidden"));
  EXPECT_THAT(refusal("xdeepfm {}"), HasSubstr("cin: [64]"));
  EXPECT_THAT(refusal("xdeepfm { cin: 0 }"), HasSubstr("cin[0] must be in"));
  EXPECT_THAT(refusal("dlrm { bottom: 0 }"), HasSubstr("bottom[0] must be in"));
  EXPECT_THAT(refusal("autoint { attention_layers: 0 }"), HasSubstr("attention_layers"));
  EXPECT_THAT(refusal("autoint { heads: 5 }"),
              HasSubstr("heads must divide attention_dim, which is 64"));
  EXPECT_THAT(refusal("finalmlp { mlp1 { hidden: 4 } }"),
              HasSubstr("its last width, 0, must be a multiple of heads, which is 1"));
  EXPECT_THAT(refusal("finalmlp { mlp1 { hidden: 4 } mlp2 { hidden: 5 } heads: 2 }"),
              HasSubstr("its last width, 5, must be a multiple of heads, which is 2"));
  EXPECT_THAT(refusal("finalmlp { mlp1 { hidden: 4 } mlp2 { hidden: 4 } gate2: 'f9' }"),
              HasSubstr("gate2: no id feature `f9`"));
}

// FinalMLP's gates weigh every column that the MLPs read, and theirs is not among them.
TEST(Network, AGatesOwnFeatureReachesNoMlp) {
  const std::string model =
      "finalmlp { mlp1 { hidden: 6 } mlp2 { hidden: 4 } gate1: 'f00' gate2: 'f11' ";
  auto rows = [&](const std::string& options) {
    auto network = MakeNetwork(MakeWorld(model + options + "}", {}).spec);
    std::map<std::string, int> by_name;
    for (const ParamSpec& param : network->params()) {
      by_name[param.name] = param.name == "gate1.logit.weight" ? param.cols : param.rows;
    }
    return by_name;
  };
  std::map<std::string, int> shared = rows(""), own = rows("gate_only: true");
  const World world = MakeWorld(model + "}", {});
  const int gates = world.spec.slots(0).embedding_dim() + world.spec.slots(3).embedding_dim();
  for (const char* param : {"mlp1.0.weight", "mlp2.0.weight", "gate1.logit.weight"}) {
    EXPECT_EQ(own[param], shared[param] - gates) << param;
  }
  const World empty = MakeWorld(model + "gate1: 'f01' gate2: 'f10' gate_only: true }", {.raws = 0});
  EXPECT_THAT(std::string(Network::Create(empty.spec, {}).status().message()),
              HasSubstr("gate_only: all features are the gates'"));
}

TEST(Network, RefusesABatchThatDoesNotFit) {
  World world = MakeWorld("fm {}", {});
  auto network = MakeNetwork(world.spec);
  const std::vector<float> params = RandomParams(*network, 2);
  World broken = world;
  broken.batch.dense.pop_back();
  EXPECT_FALSE(RunTrain(*network, broken, params).ok());
  broken = world;
  broken.rows[0].pop_back();
  EXPECT_FALSE(RunTrain(*network, broken, params).ok());
  broken = world;
  broken.batch.labels.clear();
  EXPECT_FALSE(RunTrain(*network, broken, params).ok());
  broken = world;
  broken.batch.tables[0].slots[0].axis = Axis::kPosition;
  EXPECT_FALSE(RunTrain(*network, broken, params).ok());
}

TEST(Network, ModelsNeedTheSegmentsTheyRead) {
  auto needs = [](const char* model) {
    const SegmentNeeds n = NeedsOf(ParseModel(model));
    return std::pair(n.linear, n.embedding);
  };
  EXPECT_EQ(needs("lr {}"), std::pair(true, false));
  EXPECT_EQ(needs("fm {}"), std::pair(true, true));
  EXPECT_EQ(needs("dnn {}"), std::pair(false, true));
  EXPECT_EQ(needs("wide_deep {}"), std::pair(true, true));
  EXPECT_EQ(needs("deepfm {}"), std::pair(true, true));
  EXPECT_EQ(needs("dcnv2 {}"), std::pair(false, true));
  EXPECT_EQ(needs("fwfm {}"), std::pair(true, true));
  EXPECT_EQ(needs("nfm {}"), std::pair(true, true));
  EXPECT_EQ(needs("dcn {}"), std::pair(false, true));
  EXPECT_EQ(needs("xdeepfm {}"), std::pair(true, true));
  EXPECT_EQ(needs("pnn {}"), std::pair(false, true));
  EXPECT_EQ(needs("dlrm {}"), std::pair(false, true));
  EXPECT_EQ(needs("autoint {}"), std::pair(false, true));
  EXPECT_EQ(needs("autoint { wide: true }"), std::pair(true, true));
  EXPECT_EQ(needs("finalmlp {}"), std::pair(false, true));
}

// Rows of one request share their user's entry: the same batch written out flat
// must score alike and send each id the same gradient.
TEST(Network, SharedRequestsEqualTheFlatForm) {
  World shared = MakeWorld("deepfm { hidden: 8 }", {.rows = 50});
  World flat = shared;
  flat.batch.request_of_row.clear();
  flat.batch.requests = flat.batch.rows;
  for (TableIds& table : flat.batch.tables) {
    for (Slot& slot : table.slots) {
      if (slot.axis != Axis::kRequest) continue;
      const Slot from = slot;
      slot = Slot{.axis = Axis::kRow, .offsets = {0}};
      for (uint32_t request : shared.batch.request_of_row) {
        for (uint32_t v = from.offsets[request]; v < from.offsets[request + 1]; ++v) {
          slot.index.push_back(from.index[v]);
          if (!from.weights.empty()) slot.weights.push_back(from.weights[v]);
        }
        slot.offsets.push_back(static_cast<uint32_t>(slot.index.size()));
      }
    }
  }
  LinkOccurrences(&flat.batch);
  auto network = MakeNetwork(shared.spec, {.tile = 16});
  const std::vector<float> params = RandomParams(*network, 3);
  const auto a = RunTrain(*network, shared, params), b = RunTrain(*network, flat, params);
  EXPECT_EQ(a->scores, b->scores);
  EXPECT_EQ(a->param_grads, b->param_grads);
  for (size_t t = 0; t < shared.rows.size(); ++t) {
    for (size_t i = 0; i < shared.rows[t].size(); ++i) {
      EXPECT_NEAR(a->row_grads[t][i], b->row_grads[t][i], 1e-6);
    }
  }
}

}  // namespace
}  // namespace starling
