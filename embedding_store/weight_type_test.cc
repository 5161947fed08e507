#include "embedding_store/weight_type.h"

#include <gtest/gtest.h>

#include "embedding_store/table_test_util.h"

namespace starling {
namespace {

TEST(WeightTypeTest, NarrowWeightsShrinkARowAndItsStateStaysWide) {
  TableSpec spec = MakeSpec("adagrad", 16);  // 1 + 16 weights; state: FTRL 2, Adagrad 16.
  const RowLayout layout = *RowLayout::Create(spec);
  const int state = 4 * layout.state_size();
  auto bytes = [&](TableOptions::Dtype dtype) {
    spec.mutable_options()->set_dtype(dtype);
    return RowMemoryBytes(spec.options(), layout) - 28 - state;
  };
  EXPECT_EQ(RowMemoryBytes(TableOptions(), layout), 28 + 4 * 17 + state);
  EXPECT_EQ(bytes(TableOptions::FP32), 4 * 17);
  EXPECT_EQ(bytes(TableOptions::FP16), 4 + 32);  // A run a segment, each a multiple of 4.
  EXPECT_EQ(bytes(TableOptions::BF16), 4 + 32);
  EXPECT_EQ(bytes(TableOptions::INT8), (4 + 4) + (4 + 16));  // Each with a scale.
}

}  // namespace
}  // namespace starling
