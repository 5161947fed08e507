// The ONNX form of every model gives the network's own scores, run by onnxruntime.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "dense_net/onnx_export.h"
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
  if (world.spec.raws_size() > 0) inputs["raw"]["values"] = world.batch.dense;
  return inputs;
}

void WriteCase(const std::string& model, const std::filesystem::path& stem) {
  const World world = MakeWorld(model, {.rows = 13, .seed = 8});
  auto network = MakeNetwork(world.spec);
  const std::vector<float> params = RandomParams(*network, 9);
  auto bytes = ExportOnnx(world.spec, params, "test");
  ASSERT_TRUE(bytes.ok()) << model << ": " << bytes.status();
  std::ofstream(absl::StrCat(stem.string(), ".onnx"), std::ios::binary) << *bytes;
  Json told = {{"model", model}, {"inputs", InputsOf(world)}};
  told["outputs"]["score"] = RunScore(*network, world.batch, world.rows, params);
  std::ofstream(absl::StrCat(stem.string(), ".json")) << told;
}

TEST(OnnxTest, EveryModelScoresAlikeInOnnxRuntime) {
  const std::filesystem::path dir = std::filesystem::path(testing::TempDir()) / "onnx_test";
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  const std::vector<std::string> models = {
      "lr {}",
      "fm {}",
      "dnn { hidden: 7 hidden: 5 batch_norm: true dropout: 0.5 }",
      "dnn { hidden: 6 activation: SIGMOID }",
      "wide_deep { hidden: 4 activation: TANH }",
      "deepfm { hidden: 6 hidden: 5 }",
      "dcnv2 { cross_layers: 2 hidden: 4 }",
      "dcnv2 { cross_layers: 2 hidden: 4 structure: STACKED }",
  };
  for (size_t i = 0; i < models.size(); ++i) WriteCase(models[i], dir / absl::StrCat(i));
  EXPECT_EQ(std::system(absl::StrCat(STARLING_PYTHON, " ", DENSE_NET_TESTDATA, "/check_onnx.py ",
                                     dir.string(), " ", models.size())
                            .c_str()),
            0);
}

}  // namespace
}  // namespace starling
