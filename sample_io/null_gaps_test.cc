#include "sample_io/null_gaps.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace starling {
namespace {

// Every length up to some blocks, of all, some and none that are there.
class NullGapsTest : public testing::TestWithParam<GapCode> {
 protected:
  void SetUp() override {
    if (GetParam() == GapCode::kAvx512 && BestGapCode() != GapCode::kAvx512) {
      GTEST_SKIP() << "no AVX-512 here";
    }
  }
  template <typename Check>
  void ForAll(const Check& check) {
    std::mt19937 random(7);
    for (size_t n = 0; n < 70; ++n) {
      for (uint32_t share : {0, 1, 5, 9, 10}) {
        std::vector<uint8_t> is(n);
        for (uint8_t& one : is) one = random() % 10 < share;
        check(is);
      }
    }
  }
};

TEST_P(NullGapsTest, ValuesComeToTheirPlaces) {
  ForAll([](const std::vector<uint8_t>& is) {
    std::vector<uint64_t> present, out(is.size(), 0);
    std::vector<uint8_t> levels;
    for (uint8_t one : is) {
      if (one) present.push_back(present.size() + 1);
      levels.push_back(one ? 3 : 2);
    }
    present.push_back(0);  // What a null at the end may take.
    SpreadValues(present.data(), levels.data(), 3, is.size(), out.data(), GetParam());
    for (size_t i = 0, next = 0; i < is.size(); ++i) {
      if (!is[i]) continue;
      EXPECT_EQ(out[i], present[next++]);
    }
  });
}

TEST_P(NullGapsTest, NullsAreLeftOut) {
  ForAll([](const std::vector<uint8_t>& is) {
    const size_t n = is.size();
    std::vector<uint64_t> values, out(n + 2, 77), expected;
    std::vector<uint32_t> offsets(n + 1, 77), entries(n + 2, 77);
    for (size_t i = 0; i < n; ++i) values.push_back(100 + i);
    const size_t count = PickValues(values.data(), is.data(), n, offsets.data(), entries.data(),
                                    out.data(), GetParam());
    size_t next = 0;
    for (uint32_t i = 0; i < n; ++i) {
      EXPECT_EQ(offsets[i], next);
      if (!is[i]) continue;
      EXPECT_EQ(entries[next], i);
      EXPECT_EQ(out[next++], values[i]);
    }
    EXPECT_EQ(count, next);
    EXPECT_EQ(offsets[n], 77u);  // Nothing is written behind the room.
    EXPECT_EQ(entries[n + 1], 77u);
    EXPECT_EQ(out[n + 1], 77u);
  });
}

INSTANTIATE_TEST_SUITE_P(Codes, NullGapsTest, testing::Values(GapCode::kPlain, GapCode::kAvx512));

}  // namespace
}  // namespace starling
