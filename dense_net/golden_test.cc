// Scores, loss and gradients against PyTorch (testdata/make_golden.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "dense_net/device.h"
#include "dense_net/test_world.h"

namespace starling {
namespace {

struct Golden {
  std::string model;
  std::map<std::string, std::vector<float>> values;
  const std::vector<float>& at(const std::string& name) const { return values.at(name); }
};

Golden ReadGolden(const std::string& file) {
  Golden golden;
  std::ifstream in(absl::StrCat(DENSE_NET_TESTDATA, "/", file));
  EXPECT_TRUE(in.is_open()) << file;
  std::string line, name;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    words >> name;
    if (name == "model") {
      std::getline(words, golden.model);
      continue;
    }
    for (double value; words >> value;) {
      golden.values[name].push_back(static_cast<float>(value));
    }
  }
  return golden;
}

// One table, whose rows are [linear, embedding].
World WorldOf(const Golden& golden) {
  World world;
  ParseSpec(golden.model, &world.spec);
  Batch& batch = world.batch;
  batch.labels = golden.at("labels");
  batch.dense = golden.at("raw");
  const int labels = std::max(1, world.spec.labels_size());
  batch.rows = batch.requests = static_cast<uint32_t>(batch.labels.size() / labels);
  if (golden.values.contains("weights")) {
    batch.weights = golden.at("weights");
    for (float group : golden.at("groups")) batch.groups.push_back(static_cast<uint64_t>(group));
  }
  for (size_t f = 0; f < batch.dense.size() / batch.rows; ++f) {
    world.spec.add_raws(absl::StrCat("r", f));
  }
  TableIds& table = batch.tables.emplace_back();
  for (int s = 0; golden.values.contains(absl::StrCat("counts.", s)); ++s) {
    SlotSpec* spec = world.spec.add_slots();
    spec->set_name(absl::StrCat("f", s));
    spec->set_table(0);
    spec->set_slot(s);
    spec->set_linear_offset(0);
    spec->set_embedding_offset(1);
    spec->set_embedding_dim(4);
    Slot& slot = table.slots.emplace_back();
    if (golden.values.contains("sequence") && golden.at("sequence")[0] == s) {
      spec->set_sequence(0);
      slot.axis = Axis::kPosition;
    }
    slot.offsets.push_back(0);
    for (float count : golden.at(absl::StrCat("counts.", s))) {
      slot.offsets.push_back(slot.offsets.back() + static_cast<uint32_t>(count));
    }
    for (float id : golden.at(absl::StrCat("index.", s))) {
      slot.index.push_back(static_cast<uint32_t>(id));
    }
  }
  world.spec.add_table_width(5);
  world.rows.push_back(golden.at("rows"));
  for (size_t u = 0; u < world.rows[0].size() / 5; ++u) table.ids.push_back(u);
  LinkOccurrences(&batch);
  return world;
}

std::vector<float> ParamsOf(const Golden& golden, const Network& network) {
  std::vector<float> params(network.param_floats());
  for (const ParamSpec& spec : network.params()) {
    const std::vector<float>& from = golden.at("param." + spec.name);
    EXPECT_EQ(std::ssize(from), spec.size()) << spec.name;
    std::copy(from.begin(), from.end(), params.begin() + spec.offset);
  }
  return params;
}

constexpr double kTolerance = 1e-5;

double Largest(const std::vector<float>& values) {
  double largest = 0;
  for (float value : values) largest = std::max(largest, std::fabs(double{value}));
  return largest;
}

// Within 1e-5 of the tensor's largest magnitude. A tensor that PyTorch finds zero but for
// rounding in double (a bias before batch norm, say) is held against `elsewhere`.
void ExpectNear(std::span<const float> got, const std::vector<float>& want, double elsewhere,
                const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  const double largest = Largest(want), scale = largest > 1e-12 ? largest : elsewhere;
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], kTolerance * scale) << what << " " << i;
  }
}

class GoldenTest : public testing::TestWithParam<const char*> {};

void ExpectGolden(const Golden& golden, const World& world, const Device* device) {
  auto network = MakeNetwork(world.spec, {.tile = 5, .lanes = 2, .device = device});
  const std::vector<float> params = ParamsOf(golden, *network);

  ExpectNear(RunScore(*network, world.batch, world.rows, params), golden.at("eval_scores"), 0,
             "eval scores");
  auto result = RunTrain(*network, world, params);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->loss, golden.at("loss")[0], kTolerance * golden.at("loss")[0]);
  ExpectNear(result->scores, golden.at("train_scores"), 0, "train scores");
  ExpectNear(result->row_grads[0], golden.at("grad_rows"), 0, "rows");
  const double largest = Largest(golden.at("grad_rows"));
  for (const ParamSpec& spec : network->params()) {
    ExpectNear(std::span(result->param_grads).subspan(spec.offset, spec.size()),
               golden.at("grad." + spec.name), largest, spec.name);
  }
}

TEST_P(GoldenTest, EqualsPyTorch) {
  const Golden golden = ReadGolden(absl::StrCat("golden_", GetParam(), ".txt"));
  const World world = WorldOf(golden);
  for (const Device* device : CpuDevices()) {
    SCOPED_TRACE(device->name());
    ExpectGolden(golden, world, device);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest,
                         testing::Values("lr", "fm", "dnn", "wide_deep", "deepfm", "dcnv2", "fwfm",
                                         "nfm", "dcn", "xdeepfm", "ipnn", "opnn", "bilinear",
                                         "dlrm", "autoint", "finalmlp", "finalmlp_gate_only",
                                         "prelu", "gelu", "leaky_relu", "residual", "residual_wide",
                                         "residual_grouped", "low_rank", "din", "din_softmax",
                                         "dien", "dien_aigru", "auxiliary", "log", "focal", "mse",
                                         "pairwise", "esmm", "mmoe", "ple", "dssm", "softmax"));

}  // namespace
}  // namespace starling
