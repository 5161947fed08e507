// Files that the fuzzer found (tests/fuzz), each of which once did what no file may.
#include <arrow/memory_pool.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sample_io/source.h"

namespace starling {
namespace {

// The header of a page that is passed over claims 2 GB, which Arrow allocated to skip it.
TEST(FoundFileTest, APageThatClaimsToBeHugeTakesNoMemory) {
  const std::string path = absl::StrCat(SAMPLE_IO_TESTDATA, "/damaged/huge_page.parquet");
  const auto source = SampleSource::Open({path}, {.read_memory = 1 << 10});  // In pieces.
  ASSERT_TRUE(source.ok()) << source.status();
  const int64_t before = arrow::default_memory_pool()->max_memory();
  int refused = 0;
  for (const ColumnSchema& column : (*source)->schema()) {
    for (size_t split = 0; split < (*source)->splits().size(); ++split) {
      const auto batch = (*source)->Read(static_cast<int>(split), {column.name});
      if (batch.ok()) continue;
      ++refused;
      EXPECT_TRUE(absl::StrContains(batch.status().message(), path)) << batch.status();
      EXPECT_TRUE(absl::StrContains(batch.status().message(), column.name)) << batch.status();
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(arrow::default_memory_pool()->max_memory(), before + (256 << 20));
}

}  // namespace
}  // namespace starling
