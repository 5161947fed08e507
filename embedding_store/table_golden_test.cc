// The optimisers' golden vectors (base/optimizer_golden_test.cc) once more,
// through a table: what a row holds after its steps is what the rule says,
// wherever the row was between them.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/optimizer.h"
#include "embedding_store/embedding_table.h"
#include "embedding_store/table_test_util.h"

namespace starling {
namespace {

using Json = nlohmann::json;
using Floats = std::vector<float>;

class TableGoldenTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Rules, TableGoldenTest, testing::ValuesIn(OptimizerRules()),
                         [](const auto& info) { return info.param; });

// The largest error of one rounding to the dtype, as a part of the largest
// weight. Rounding is to either neighbour, so it is a whole step.
double StepOf(TableOptions::Dtype dtype) {
  switch (dtype) {
    case TableOptions::FP16:
      return 1.0 / 1024;
    case TableOptions::BF16:
      return 1.0 / 128;
    case TableOptions::INT8:
      return 1.0 / 127;
    case TableOptions::FP32:
      break;
  }
  return 0;
}

// One row of the vectors, in a table of its own among other rows.
class GoldenRow {
 public:
  GoldenRow(const OptimizerOptions& options, TableOptions::Tier tier, TableOptions::Dtype dtype,
            const Floats& start, const std::string& scratch)
      : optimizer_(*Optimizer::Create(options)),
        dtype_(dtype),
        weights_(start),
        state_(optimizer_->StateSize(static_cast<int>(start.size()))) {
    optimizer_->InitState(state_);
    TableSpec spec;
    spec.mutable_options()->set_name("golden");
    spec.mutable_options()->set_tier(tier);
    spec.mutable_options()->set_dtype(dtype);
    spec.mutable_options()->set_memory(kTinyMemory);
    SegmentSpec* segment = spec.add_segments();
    segment->set_name("embedding");
    segment->set_dim(static_cast<int>(start.size()));
    *segment->mutable_optimizer() = options;
    table_ = *EmbeddingTable::Open(spec, {.scratch_dir = scratch});
    Create({kId});  // Its init is 0, so that the delta is what it holds.
    EXPECT_TRUE(table_->ApplyDeltas(Ids(), start).ok());
    NoteLargest();
  }

  void Step(float scale, const Floats& grad) {
    optimizer_->Step(scale, weights_, state_, grad);
    // In the tier rocksdb these push the row out of memory, now and then.
    if (roundings_ % 7 == 1 && table_->spec().options().tier() == TableOptions::ROCKSDB) {
      Create(MakeIds(0, 1500));
    }
    EXPECT_TRUE(table_->ApplyGradients(Ids(), grad, scale).ok());
    ++roundings_;
    NoteLargest();
  }

  // Errors of roundings add up at worst; no rule makes an error larger.
  void Compare() const {
    Floats seen(weights_.size());
    ASSERT_OK(table_->Lookup(Ids(), seen));
    if (dtype_ == TableOptions::FP32) {
      EXPECT_EQ(seen, weights_);
      return ExpectState();
    }
    const double tolerance = StepOf(dtype_) * largest_ * roundings_ + 1e-6;
    for (size_t i = 0; i < seen.size(); ++i) {
      EXPECT_NEAR(seen[i], weights_[i], tolerance) << "weight " << i << " after " << roundings_ - 1;
    }
  }
  TableStats stats() const { return table_->stats(); }

 private:
  static constexpr uint64_t kId = 77;
  static std::vector<uint64_t> Ids() { return {kId}; }

  void Create(const std::vector<uint64_t>& ids) {
    Floats weights(ids.size() * table_->width());
    EXPECT_TRUE(table_->LookupOrCreate(ids, {}, {}, weights).ok());
  }
  void NoteLargest() {
    for (float w : weights_) largest_ = std::max<double>(largest_, std::fabs(w));
  }
  void ExpectState() const {
    ASSERT_OK(table_->ForEach([&](uint64_t id, const RowMeta&, std::span<const float> floats) {
      if (id != kId) return;
      EXPECT_EQ(Floats(floats.begin() + weights_.size(), floats.end()), state_);
    }));
  }

  const std::unique_ptr<const Optimizer> optimizer_;
  const TableOptions::Dtype dtype_;
  Floats weights_, state_;  // As the optimiser alone has them.
  std::unique_ptr<EmbeddingTable> table_;
  int roundings_ = 1;
  double largest_ = 0;
};

TEST_P(TableGoldenTest, StepsThroughATableEqualTheOptimisersOwn) {
  std::ifstream in(absl::StrCat(BASE_TESTDATA "/optimizers/", GetParam(), ".json"));
  ASSERT_TRUE(in);
  const Json file = Json::parse(in);
  TestDir dir;
  int64_t promoted = 0;
  for (const Json& golden : file["cases"]) {
    OptimizerOptions options;
    const std::string text = golden["options"];
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &options)) << text;
    for (auto tier : {TableOptions::MEMORY, TableOptions::ROCKSDB}) {
      for (auto dtype :
           {TableOptions::FP32, TableOptions::FP16, TableOptions::BF16, TableOptions::INT8}) {
        const size_t r = file["start"].size() - 1;  // The widest: vectors and a remainder.
        SCOPED_TRACE(absl::StrCat(text, " ", TableOptions::Tier_Name(tier), " ",
                                  TableOptions::Dtype_Name(dtype)));
        GoldenRow row(options, tier, dtype, file["start"][r].get<Floats>(), dir.File("scratch"));
        for (size_t t = 0; t < file["grads"].size(); ++t) {
          const Json& grad = file["grads"][t][r];
          if (!grad.is_null()) row.Step(golden["scales"][t], grad.get<Floats>());
          row.Compare();
        }
        promoted += row.stats().promoted;
      }
    }
  }
  EXPECT_GT(promoted, 0);
}

}  // namespace
}  // namespace starling
