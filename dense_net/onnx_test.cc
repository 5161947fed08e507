// The ONNX form of every model gives the network's own scores, run by onnxruntime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "dense_net/losses.h"
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

Json InputsOf(const World& world) {
  const SegmentNeeds needs = NeedsOf(world.spec.model());
  Json inputs = Json::object();
  int width = 0;
  for (const SlotSpec& slot : world.spec.slots()) width += slot.embedding_dim();
  std::vector<float> embedding(world.batch.rows * width), linear(world.batch.rows);
  int column = 0;
  for (const SlotSpec& slot : world.spec.slots()) {
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
  const std::filesystem::path dir =
      std::filesystem::path(testing::TempDir()) / absl::StrCat(name, ".", getpid());
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

// Every model without sequences, and every op and loss that these can have.
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

// No model without sequences has this op.
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

TEST(OnnxTest, SequenceModelIsRefusedByTheNameOfItsOp) {
  const absl::Status status = ExportStatus(
      "din { attention { sequence: 's0' target: 'f00' } attention { sequence: 's1' target: "
      "'f11' } attention_hidden: 4 hidden: 4 }");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("op `attention.0.events` has no"));
}

TEST(OnnxTest, OutputNamedAsAnInputIsRefused) {
  const absl::Status status = ExportStatus("dnn { hidden: 4 } | name: 'raw' label: 'y1'");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("`raw`"));
}

}  // namespace
}  // namespace starling
