// The ONNX form of every model gives the network's own scores, run by onnxruntime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/test_root.h"
#include "dense_net/losses.h"
#include "dense_net/models.h"
#include "dense_net/onnx_export.h"
#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"
#include "dense_net/test_world.h"

namespace starling {
namespace {

using Json = nlohmann::json;

// The rows of one slot, looked up and pooled the plain way: `dim` floats at
// `offset` of each id's row.
void PoolSlot(const World& world, const SlotSpec& spec, int offset, int dim, int stride,
              float* out) {
  const Slot& slot = world.batch.tables[spec.table()].slots[spec.slot()];
  const int width = world.spec.table_width(spec.table());
  const bool by_request = slot.axis == Axis::kRequest && !world.batch.request_of_row.empty();
  for (uint32_t r = 0; r < world.batch.rows; ++r) {
    const uint32_t entry = by_request ? world.batch.request_of_row[r] : r;
    for (uint32_t i = slot.offsets[entry]; i < slot.offsets[entry + 1]; ++i) {
      const float weight = slot.weights.empty() ? 1.0f : slot.weights[i];
      const float* row = world.rows[spec.table()].data() + slot.index[i] * width + offset;
      for (int j = 0; j < dim; ++j) out[int64_t{r} * stride + j] += weight * row[j];
    }
  }
}

// The sequences of the graph, padded to the longest with numbers that must not matter.
void AddSequences(const World& world, Json* inputs) {
  constexpr float kPadding = 7.5f;
  const Graph graph = BuildGraph(world.spec).value();
  for (const SequenceAxis& axis : graph.sequences) {
    const Op& op = *graph.ops[axis.input];
    auto slot_of = [&](const SlotSpec& spec) -> const Slot& {
      return world.batch.tables[spec.table()].slots[spec.slot()];
    };
    auto entry_of = [&](const Slot& slot, uint32_t row) {
      const bool by_request =
          slot.entries() == Axis::kRequest && !world.batch.request_of_row.empty();
      return by_request ? world.batch.request_of_row[row] : row;
    };
    const Slot& first = slot_of(axis.slots[0]);
    std::vector<int64_t> lengths;
    for (uint32_t r = 0; r < world.batch.rows; ++r) {
      const uint32_t entry = entry_of(first, r);
      lengths.push_back(first.offsets[entry + 1] - first.offsets[entry]);
    }
    const int64_t longest = *std::max_element(lengths.begin(), lengths.end()) + 1;
    std::vector<float> events(world.batch.rows * longest * op.width(), kPadding);
    int column = 0;
    for (const SlotSpec& spec : axis.slots) {
      const Slot& slot = slot_of(spec);
      for (uint32_t r = 0; r < world.batch.rows; ++r) {
        for (int64_t t = 0; t < lengths[r]; ++t) {
          const uint32_t id = slot.index[slot.offsets[entry_of(slot, r)] + t];
          const float* row = world.rows[spec.table()].data() +
                             id * world.spec.table_width(spec.table()) + spec.embedding_offset();
          std::copy_n(row, spec.embedding_dim(),
                      events.data() + (r * longest + t) * op.width() + column);
        }
      }
      column += spec.embedding_dim();
    }
    (*inputs)[op.name()] = {{"values", events}, {"shape", {-1, longest, op.width()}}};
    (*inputs)[op.name() + ".lengths"]["values"] = lengths;
  }
}

Json InputsOf(const World& world) {
  const SegmentNeeds needs = NeedsOf(world.spec.model());
  Json inputs = Json::object();
  int width = 0;
  const std::vector<SlotSpec> slots = PooledSlots(world.spec);
  for (const SlotSpec& slot : slots) width += slot.embedding_dim();
  std::vector<float> embedding(world.batch.rows * width), linear(world.batch.rows);
  int column = 0;
  for (const SlotSpec& slot : slots) {
    PoolSlot(world, slot, slot.embedding_offset(), slot.embedding_dim(), width,
             embedding.data() + column);
    PoolSlot(world, slot, slot.linear_offset(), 1, 1, linear.data());
    column += slot.embedding_dim();
  }
  if (needs.embedding) inputs["embedding"]["values"] = embedding;
  if (needs.linear) inputs["linear"]["values"] = linear;
  // Plain attention reads no raw feature, so its ONNX form has no such input.
  const AutoIntOptions& autoint = world.spec.model().autoint();
  const bool attention_alone =
      world.spec.model().has_autoint() && autoint.hidden().empty() && !autoint.wide();
  if (!attention_alone) inputs["raw"]["values"] = world.batch.dense;
  if (needs.sequences) AddSequences(world, &inputs);
  return inputs;
}

// A model's outputs carry the names of its tasks; without tasks there is one, `score`.
Json OutputsOf(const World& world, const Network& network, const std::vector<float>& scores) {
  Json outputs;
  const size_t width = network.outputs().size();
  for (size_t c = 0; c < width; ++c) {
    std::vector<float> column;
    for (size_t i = c; i < scores.size(); i += width) column.push_back(scores[i]);
    outputs[world.spec.tasks_size() == 0 ? "score" : network.outputs()[c].name] = column;
  }
  return outputs;
}

void WriteFiles(const std::filesystem::path& stem, const std::string& onnx, const Json& told) {
  std::ofstream(absl::StrCat(stem.string(), ".onnx"), std::ios::binary) << onnx;
  std::ofstream(absl::StrCat(stem.string(), ".json")) << told;
}

void WriteCase(const std::string& model, const std::filesystem::path& stem) {
  const World world = MakeWorld(model, {.rows = 13, .seed = 8});
  auto network = MakeNetwork(world.spec);
  const std::vector<float> params = RandomParams(*network, 9);
  auto bytes = ExportOnnx(world.spec, params, "test");
  ASSERT_TRUE(bytes.ok()) << model << ": " << bytes.status();
  const std::vector<float> scores = RunScore(*network, world.batch, world.rows, params);
  WriteFiles(stem, *bytes,
             {{"model", model},
              {"inputs", InputsOf(world)},
              {"outputs", OutputsOf(world, *network, scores)}});
}

std::filesystem::path EmptyDir(const std::string& name) {
  const std::filesystem::path dir = std::filesystem::path(TestRoot()) / name;
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  return dir;
}

// The status of the script that runs the `cases` files of a directory.
int CheckOnnx(const std::filesystem::path& dir, size_t cases) {
  return std::system(absl::StrCat(STARLING_PYTHON, " ", DENSE_NET_TESTDATA, "/check_onnx.py ",
                                  dir.string(), " ", cases)
                         .c_str());
}

absl::Status ExportStatus(const std::string& model) {
  const World world = MakeWorld(model, {});
  return ExportOnnx(world.spec, RandomParams(*MakeNetwork(world.spec), 9), "test").status();
}

// Every model, and every op and loss that they can have.
const char* const kModels[] = {
    "lr {}",
    "fm {}",
    "fwfm {}",
    "dnn { hidden: 7 hidden: 5 batch_norm: true dropout: 0.5 }",
    "dnn { hidden: 6 activation: SIGMOID }",
    "dnn { hidden: 6 activation: LEAKY_RELU }",
    "dnn { hidden: 7 hidden: 5 activation: PRELU layer_norm: true }",
    "dnn { hidden: 6 activation: GELU }",
    "dnn { hidden: 6 hidden: 5 activation: DICE }",
    "wide_deep { hidden: 4 activation: TANH }",
    "deepfm { hidden: 6 hidden: 5 }",
    "nfm { hidden: 5 }",
    "dcn { cross_layers: 3 hidden: 4 }",
    "dcnv2 { cross_layers: 2 hidden: 4 }",
    "dcnv2 { cross_layers: 2 hidden: 4 structure: STACKED }",
    "dcnv2 { cross_layers: 2 rank: 3 experts: 2 }",
    "dnn { hidden: 6 hidden: 4 batch_norm: true residual { kind: WIDE blocks: 2 } }",
    "dnn { hidden: 6 residual { kind: GROUPED groups: 3 } }",
    "xdeepfm { cin: 5 cin: 3 hidden: 4 }",
    "dlrm { bottom: 4 hidden: 5 }",
    "pnn { hidden: 5 }",
    "pnn { hidden: 5 product: OUTER }",
    "pnn { hidden: 5 product: BILINEAR }",
    "autoint { attention_layers: 2 heads: 2 attention_dim: 6 layer_norm: true hidden: 4 "
    "dropout: 0.2 wide: true }",
    "autoint { attention_layers: 2 heads: 3 attention_dim: 3 residual: false wide: true }",
    "autoint { attention_layers: 1 heads: 1 attention_dim: 3 }",
    "custom { blocks { name: 'a' from: 'embedding' from: 'raw' cross { layers: 1 } } blocks { "
    "name: "
    "'b' from: 'embedding' fm {} } blocks { name: 'c' from: 'a' linear {} } "
    "blocks { name: 'd' from: 'b' from: 'c' add {} } outputs: 'd' }",
    "finalmlp { mlp1 { hidden: 6 } mlp2 { hidden: 4 batch_norm: true } heads: 2 gate1: 'f00' "
    "gate2: 'f10' gate2: 'f11' gate_hidden: 3 }",
    "finalmlp { mlp1 { hidden: 6 } mlp2 { hidden: 4 } gate1: 'f00' gate2: 'f11' gate_only: true }",
    "din { attention { sequence: 's0' sequence: 's1' target: 'f00' target: 'f10' } "
    "attention_hidden: 5 hidden: 4 }",
    "din { attention { sequence: 's1' target: 'f11' } attention { sequence: 's0' target: 'f00' } "
    "attention_hidden: 5 attention_activation: PRELU attention_softmax: true hidden: 4 }",
    "dien { attention { sequence: 's0' sequence: 's1' target: 'f00' target: 'f10' } "
    "attention_hidden: 4 hidden: 4 }",
    "dien { attention { sequence: 's0' target: 'f01' } attention { sequence: 's1' target: 'f10' } "
    "attention_hidden: 4 evolution: AIGRU hidden: 3 }",
    "dnn { hidden: 4 } | name: 'a' label: 'y1' loss { focal { gamma: 1.5 alpha: 0.3 } }",
    "dnn { hidden: 4 } | name: 'a' label: 'y1' loss { mse {} }",
    "dnn { hidden: 4 } | name: 'a' label: 'y0' loss { pairwise {} }",
    "esmm { hidden: 4 batch_norm: true } | name: 'a' label: 'y0' | name: 'b' label: 'y1'",
    "mmoe { experts: 3 expert { hidden: 4 hidden: 3 activation: TANH } tower { hidden: 3 "
    "activation: TANH } } | name: 'a' label: 'y0' | name: 'b' label: 'y1' loss { mse {} }",
    "ple { levels: 2 expert { hidden: 4 hidden: 3 activation: TANH } tower { hidden: 3 "
    "activation: TANH } } | name: 'a' label: 'y0' | name: 'b' label: 'y1'",
    "dssm { user: 'f00' user: 'r0' item: 'f01' item: 'f10' item: 'f11' item: 'r1' "
    "tower { hidden: 5 hidden: 3 } temperature: 0.5 }",
    "dssm { user: 'f00' user: 'r0' user: 'r1' item: 'f01' item: 'f10' item: 'f11' match: DOT "
    "tower { hidden: 3 } temperature: 2 } | name: 'a' label: 'y1'",
    "dssm { user: 'f00' user: 'f11' user: 'r0' user: 'r1' item: 'f01' item: 'f10' tower "
    "{ hidden: 3 } temperature: 2 } | name: 'a' label: 'y1' loss { sampled_softmax {} }",
};

TEST(OnnxTest, EveryModelScoresAlikeInOnnxRuntime) {
  const std::filesystem::path dir = EmptyDir("onnx_test");
  for (size_t i = 0; i < std::size(kModels); ++i) WriteCase(kModels[i], dir / absl::StrCat(i));
  EXPECT_EQ(CheckOnnx(dir, std::size(kModels)), 0);
}

TEST(OnnxTest, TwoTowersGiveTheirVectorsToo) {
  const World world = MakeWorld(
      "dssm { user: 'f00' user: 'r0' item: 'f01' item: 'f10' item: 'f11' item: 'r1' "
      "tower { hidden: 5 hidden: 3 } temperature: 0.5 }",
      {.rows = 13, .seed = 8});
  auto network = MakeNetwork(world.spec);
  const std::vector<float> params = RandomParams(*network, 9);
  auto bytes = ExportOnnx(world.spec, params, "test");
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto bias = std::find_if(network->params().begin(), network->params().end(),
                                 [](const ParamSpec& spec) { return spec.name == "match.bias"; });
  ASSERT_NE(bias, network->params().end());
  Json told = {{"model", "two towers"}, {"inputs", InputsOf(world)}};
  told["outputs"] = Json::object();
  told["match"] = {{"scale", 2},
                   {"bias", params[bias->offset]},
                   {"scores", RunScore(*network, world.batch, world.rows, params)}};
  const std::filesystem::path dir = EmptyDir("onnx_towers_test");
  WriteFiles(dir / "0", *bytes, told);
  EXPECT_EQ(CheckOnnx(dir, 1), 0);
}

TEST(OnnxTest, ScaledRowsAreScaledInOnnxRuntime) {
  GraphBuilder builder;
  const Value raw = RawInput(&builder, 3);
  const Value scale = Columns(&builder, "scale", raw, {{0, 1}});
  const Value scaled = ScaleRows(&builder, "scaled", scale, Columns(&builder, "x", raw, {{1, 2}}));
  SquaredLoss(&builder, {.name = "loss", .output = 0}, SumPositions(&builder, "sum", scaled, 2));
  const Graph graph = builder.Finish();
  auto bytes = OnnxGraph(graph, {}).Finish("test");
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const std::filesystem::path dir = EmptyDir("onnx_scale_test");
  Json told = {{"model", "scaled rows"}};
  told["inputs"]["raw"]["values"] = {2, 3, 4, -0.5, 6, 1};
  told["outputs"]["score"] = {14, -3.5};
  WriteFiles(dir / "0", *bytes, told);
  EXPECT_EQ(CheckOnnx(dir, 1), 0);
}

TEST(OnnxTest, OutputNamedAsAnInputIsRefused) {
  const absl::Status status = ExportStatus("dnn { hidden: 4 } | name: 'raw' label: 'y1'");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("`raw`"));
}

}  // namespace
}  // namespace starling
