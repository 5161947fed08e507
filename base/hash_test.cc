#include "base/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace starling {
namespace {

// The values of the xxHash specification's test vectors.
TEST(HashTest, BytesHashAsXxh64Specifies) {
  EXPECT_EQ(HashBytes("", 0), 0xEF46DB3751D8E999ull);
  EXPECT_EQ(HashBytes("a", 0), 0xD24EC4F1A98C6E5Bull);
  EXPECT_EQ(HashBytes("abc", 0), 0x44BC2CF5AD770999ull);
  EXPECT_EQ(HashBytes("Call me Ishmael. Some years ago--never mind how long precisely-", 0),
            0x02A2E85470D6FD96ull);
  EXPECT_EQ(HashBytes("", 42), 0x98B1582B0977E704ull);
  EXPECT_EQ(VocabularySeed("abc"), 0x13C1D910702770E6ull);
}

TEST(HashTest, IntegerHashesAsItsEightLittleEndianBytes) {
  EXPECT_EQ(HashInt64(0x0807060504030201, 7), HashBytes("\1\2\3\4\5\6\7\10", 7));
  EXPECT_EQ(HashInt64(-1, 7), HashBytes(std::string(8, '\xFF'), 7));
  uint64_t value = 1, seed = 2;
  for (int i = 0; i < 1000; ++i) {
    value = value * 6364136223846793005 + 1442695040888963407;
    seed = seed * 6364136223846793005 + value;
    const absl::string_view bytes(reinterpret_cast<const char*>(&value), sizeof(value));
    ASSERT_EQ(HashInt64(static_cast<int64_t>(value), seed), HashBytes(bytes, seed));
  }
}

// testdata/xxhash64_golden.tsv was written by Spark itself, by the script beside it.
TEST(HashTest, IdEqualsSparksXxhash64OfVocabularyAndValue) {
  std::ifstream in(BASE_TESTDATA "/xxhash64_golden.tsv");
  int strings = 0, bigints = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#")) continue;
    std::vector<std::string> part = absl::StrSplit(line, '\t');
    ASSERT_EQ(part.size(), 4) << line;
    uint64_t expected = 0;
    ASSERT_TRUE(absl::SimpleAtoi(part[3], &expected)) << line;
    const uint64_t seed = VocabularySeed(part[0]);
    if (part[1] == "string") {
      EXPECT_EQ(HashBytes(absl::HexStringToBytes(part[2]), seed), expected) << line;
      ++strings;
    } else {
      int64_t value = 0;
      ASSERT_TRUE(absl::SimpleAtoi(part[2], &value)) << line;
      EXPECT_EQ(HashInt64(value, seed), expected) << line;
      ++bigints;
    }
  }
  EXPECT_GE(strings, 50);
  EXPECT_GE(bigints, 50);
}

TEST(HashTest, BucketsAreFrozen) {
  EXPECT_EQ(kBuckets, 4096u);
  EXPECT_EQ(BucketOf(0), 0u);
  EXPECT_EQ(BucketOf(1), 2531u);
  EXPECT_EQ(BucketOf(2), 966u);
  EXPECT_EQ(BucketOf(std::numeric_limits<uint64_t>::max()), 1564u);
  EXPECT_EQ(BucketOf(0xEF46DB3751D8E999ull), 202u);
}

TEST(HashTest, IdsAreOrderedByBucketThenId) {
  EXPECT_TRUE(IdBefore(2, 1));  // Bucket 966 before 2531.
  EXPECT_FALSE(IdBefore(1, 2));
  EXPECT_FALSE(IdBefore(1, 1));
  std::vector<uint64_t> ids;
  for (uint64_t i = 0; i < 20000; ++i) ids.push_back(HashInt64(static_cast<int64_t>(i), 0));
  std::sort(ids.begin(), ids.end(), IdBefore);
  for (size_t i = 1; i < ids.size(); ++i) {
    ASSERT_LE(BucketOf(ids[i - 1]), BucketOf(ids[i]));
    if (BucketOf(ids[i - 1]) == BucketOf(ids[i])) {
      ASSERT_LT(ids[i - 1], ids[i]);
    }
  }
}

TEST(HashTest, BucketsFillEvenly) {
  std::vector<int> counts(kBuckets);
  for (int64_t i = 0; i < 409600; ++i) ++counts[BucketOf(HashInt64(i, 42))];
  EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 50);
  EXPECT_LT(*std::max_element(counts.begin(), counts.end()), 160);
}

}  // namespace
}  // namespace starling
