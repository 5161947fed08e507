// Row groups that are too large for the budget of memory are read in pieces: the
// batches are those of the same rows in small row groups, and memory stays within
// the budget.
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_nested.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/memory_pool.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "sample_io/batch_reader.h"
#include "sample_io/memory_test_util.h"
#include "sample_io/parquet_test_util.h"

namespace starling {
namespace {

void Check(const arrow::Status& status) { ASSERT_TRUE(status.ok()) << status.message(); }

std::shared_ptr<arrow::Array> Finish(arrow::ArrayBuilder* builder) {
  std::shared_ptr<arrow::Array> array;
  Check(builder->Finish(&array));
  return array;
}

// x numbers the rows. Of every kind of column: plain and widened numbers, nulls,
// strings in a dictionary and out of one, lists of numbers and strings, a map.
std::shared_ptr<arrow::Table> TestTable(int64_t rows) {
  arrow::Int64Builder x, a;
  arrow::FloatBuilder f;
  arrow::Int32Builder y;
  arrow::StringBuilder word, text;
  auto numbers = std::make_shared<arrow::Int64Builder>();
  arrow::ListBuilder list(arrow::default_memory_pool(), numbers);
  auto tags = std::make_shared<arrow::StringBuilder>();
  arrow::ListBuilder tag_list(arrow::default_memory_pool(), tags);
  auto keys = std::make_shared<arrow::Int64Builder>();
  auto items = std::make_shared<arrow::Int64Builder>();
  arrow::MapBuilder map(arrow::default_memory_pool(), keys, items);
  for (int64_t i = 0; i < rows; ++i) {
    const uint64_t bits = RandomBits(1, i);
    Check(x.Append(i));
    Check(bits % 5 == 0 ? a.AppendNull() : a.Append(static_cast<int64_t>(bits % 100'000)));
    Check(bits % 7 == 0 ? f.AppendNull() : f.Append(static_cast<float>(bits % 97)));
    Check(y.Append(static_cast<int32_t>(bits >> 8 & 1)));
    Check(bits % 11 == 0 ? word.AppendNull() : word.Append(absl::StrCat("word", bits % 50)));
    Check(text.Append(absl::StrCat(absl::Hex(bits), "-", i)));
    Check(list.Append());
    for (uint64_t n = bits >> 16 & 3; n > 0; --n) Check(numbers->Append(bits >> n & 1023));
    Check(tag_list.Append());
    for (uint64_t n = bits >> 24 & 1; n > 0; --n) Check(tags->Append(absl::StrCat(bits % 9)));
    Check(map.Append());
    Check(keys->Append(bits % 3));
    Check(items->Append(static_cast<int64_t>(bits % 13)));
  }
  return arrow::Table::Make(
      arrow::schema({arrow::field("x", arrow::int64()), arrow::field("a", arrow::int64()),
                     arrow::field("f", arrow::float32()), arrow::field("y", arrow::int32()),
                     arrow::field("word", arrow::utf8()), arrow::field("text", arrow::utf8()),
                     arrow::field("list", list.type()), arrow::field("tags", tag_list.type()),
                     arrow::field("map", map.type())}),
      {Finish(&x), Finish(&a), Finish(&f), Finish(&y), Finish(&word), Finish(&text), Finish(&list),
       Finish(&tag_list), Finish(&map)});
}

std::unique_ptr<FeatureCompiler> TestCompiler() {
  FeatureSet set;
  set.set_tables(1);
  for (const char* name : {"a", "word", "text", "list", "tags"}) {
    set.add_ids()->set_name(name);
    set.mutable_ids(set.ids_size() - 1)->set_table(0);
  }
  IdFeature* looked_up = set.add_ids();
  looked_up->set_name("found");
  looked_up->set_table(0);
  DeriveStep* step = looked_up->add_steps();
  step->add_columns("map");
  step->add_columns("a");
  step->mutable_lookup()->set_as_id(true);
  set.add_raws()->set_name("x");
  set.add_raws()->set_name("f");
  set.set_label("y");
  return *FeatureCompiler::Create(set);
}

struct Read {
  std::vector<float> dense, labels;
  std::vector<uint64_t> ids;
  std::vector<std::vector<uint32_t>> index;
  ReaderPosition after;
  bool operator==(const Read& o) const {
    return dense == o.dense && labels == o.labels && ids == o.ids && index == o.index;
  }
};

std::vector<Read> ReadAll(const SampleSource& source, const BatchReaderOptions& options,
                          const ReaderPosition& start = {}) {
  const std::unique_ptr<FeatureCompiler> compiler = TestCompiler();
  auto reader = *BatchReader::Create(&source, compiler.get(), options, start);
  std::vector<Read> all;
  Batch batch;
  absl::Status status;
  while ((status = reader->Next(&batch)).ok()) {
    Read& read = all.emplace_back();
    read = {batch.dense, batch.labels, batch.tables[0].ids, {}, reader->position()};
    for (const Slot& slot : batch.tables[0].slots) read.index.push_back(slot.index);
  }
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  return all;
}

std::unique_ptr<SampleSource> Open(const std::string& path, int64_t read_memory,
                                   const std::string& where = "") {
  return *SampleSource::Open({path}, {.where = where, .read_memory = read_memory});
}

class ReadMemoryTest : public testing::Test {
 protected:
  static constexpr int64_t kRows = 40'000;

  // One row group in large_, and in small_ the same rows in groups of a piece each.
  void WriteFiles(bool dictionary, int64_t rows = kRows) {
    const std::string dir = FreshDir();
    const auto table = TestTable(rows);
    large_ = dir + "/large/a.parquet";
    small_ = dir + "/small/a.parquet";
    WriteParquet(large_, *table, {.dictionary = dictionary, .page_bytes = 20'000});
    const auto source = Open(large_, kBudget);
    pieces_ = source->splits().size();
    WriteParquet(small_, *table,
                 {.row_group_rows = source->splits()[0].rows, .dictionary = dictionary});
  }

  static constexpr int64_t kBudget = 16 << 20;
  std::string large_, small_;
  size_t pieces_ = 0;
};

TEST_F(ReadMemoryTest, BatchesAreThoseOfSmallRowGroups) {
  BatchReaderOptions options = {.batch_rows = 1000, .seed = 7, .queue_max = 3};
  for (const bool dictionary : {true, false}) {
    WriteFiles(dictionary);
    ASSERT_GE(pieces_, 4u);
    for (const char* where : {"", "a > 30000"}) {
      for (const int threads : {1, 4}) {
        options.threads = threads;
        options.shuffle = threads > 1;
        const std::vector<Read> small = ReadAll(*Open(small_, 0, where), options);
        const std::vector<Read> large = ReadAll(*Open(large_, kBudget, where), options);
        ASSERT_GT(small.size(), where[0] == 0 ? 35u : 20u);
        EXPECT_TRUE(small == large) << where << ", " << threads << " threads";
      }
    }
  }
}

TEST_F(ReadMemoryTest, APassGoesOnInsideARowGroup) {
  WriteFiles(true);
  const BatchReaderOptions options = {.batch_rows = 3000, .shuffle = true, .seed = 3, .threads = 2};
  const auto source = Open(large_, kBudget);
  const std::vector<Read> whole = ReadAll(*source, options);
  for (size_t i = 0; i < whole.size(); i += 2) {
    const std::vector<Read> rest = ReadAll(*source, options, whole[i].after);
    EXPECT_TRUE(rest == std::vector<Read>(whole.begin() + static_cast<int64_t>(i) + 1, whole.end()))
        << "after batch " << i;
  }
}

TEST_F(ReadMemoryTest, SplitsAreAFunctionOfFileAndBudget) {
  WriteFiles(true);
  const auto source = Open(large_, kBudget), whole = Open(large_, 0);
  EXPECT_EQ(whole->splits().size(), 1u);
  EXPECT_EQ(whole->splits()[0].Place(), large_ + ": row group 0");
  EXPECT_NE(source->fingerprint(), whole->fingerprint()) << "positions are others";
  EXPECT_EQ(source->fingerprint(), Open(large_, kBudget)->fingerprint());
  int64_t end = 0;
  for (const Split& split : source->splits()) {
    EXPECT_EQ(split.begin, end);
    EXPECT_LE(split.bytes, kBudget / 8);
    end += split.rows;
  }
  EXPECT_EQ(end, kRows);
  EXPECT_EQ(source->splits()[1].Place(),
            absl::StrCat(large_, ": row group 0, rows ", source->splits()[1].begin, " to ",
                         source->splits()[2].begin - 1));
}

int64_t BytesOf(const Column& column) {
  const auto bytes = [](const auto& values) {
    return static_cast<int64_t>(values.capacity() * sizeof(values[0]));
  };
  return bytes(column.valid) + bytes(column.list_offsets) + bytes(column.ints) +
         bytes(column.doubles) + bytes(column.strings) +
         (column.items == nullptr ? 0 : BytesOf(*column.items));
}

// What a piece leaves in memory, which is the same in every run.
TEST_F(ReadMemoryTest, APieceTakesItsShareOfTheBudget) {
  constexpr int64_t kLarger = 64 << 20;  // Beside which spare room in vectors is little.
  WriteFiles(true, 200'000);
  const auto source = Open(large_, kLarger);
  ASSERT_GE(source->splits().size(), 4u);
  const std::vector<std::string> columns = TestCompiler()->Columns();
  for (size_t s = 0; s < source->splits().size(); ++s) {
    const int64_t before = arrow::default_memory_pool()->bytes_allocated();
    auto batch = source->Read(static_cast<int>(s), columns);
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->Find("x")->ints[0], source->splits()[s].begin);
    int64_t held = arrow::default_memory_pool()->bytes_allocated() - before;
    for (const Column& column : batch->columns) held += BytesOf(column);
    EXPECT_LE(held, source->splits()[s].bytes) << "split " << s;
    EXPECT_LE(held, kLarger / 8) << "split " << s;
  }
}

// Rows are named by their place in the row group, not in the piece.
TEST_F(ReadMemoryTest, QuarantineNamesTheRowOfTheRowGroup) {
  const std::string dir = FreshDir();
  auto table = TestTable(kRows);
  arrow::DoubleBuilder builder;  // A label of 7 in one row.
  for (int64_t i = 0; i < kRows; ++i) Check(builder.Append(i == 31'234 ? 7 : 0));
  table = *table->SetColumn(3, arrow::field("y", arrow::float64()),
                            std::make_shared<arrow::ChunkedArray>(Finish(&builder)));
  WriteParquet(dir + "/data/a.parquet", *table, {.page_bytes = 20'000});
  const auto source = Open(dir + "/data", kBudget);
  ASSERT_GE(source->splits().size(), 4u);
  ReadAll(*source, {.batch_rows = 1000, .shuffle = true, .quarantine = dir + "/bad.parquet"});
  const ColumnBatch bad =
      *(*SampleSource::Open({dir + "/bad.parquet"}))->Read(0, {"x", "_row_group", "_row"});
  ASSERT_EQ(bad.rows, 1);
  EXPECT_EQ(bad.columns[0].strings[0], "31234");
  EXPECT_EQ(bad.columns[1].ints[0], 0);
  EXPECT_EQ(bad.columns[2].ints[0], 31'234);
}

TEST_F(ReadMemoryTest, AHugeRowGroupIsReadWithinTheBudget) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory hides what is measured";
  constexpr int64_t kHuge = 2'000'000, kSmallBudget = 64 << 20;
  const std::string path = FreshDir() + "/huge.parquet";
  InAnotherProcess([&] { WriteParquet(path, *TestTable(kHuge), {.row_group_rows = kHuge}); });
  const auto source = Open(path, kSmallBudget);
  ASSERT_EQ(source->rows(), kHuge);
  int64_t decoded = 0;
  for (const Split& split : source->splits()) decoded += split.bytes;
  ASSERT_GT(decoded, 4 * kSmallBudget);
  const MemoryGrowth growth;
  const std::unique_ptr<FeatureCompiler> compiler = TestCompiler();
  auto reader = *BatchReader::Create(source.get(), compiler.get(),
                                     {.batch_rows = 4096, .shuffle = true, .threads = 2}, {});
  Batch batch;
  int64_t rows = 0;
  while (reader->Next(&batch).ok()) rows += batch.rows;
  EXPECT_EQ(rows, kHuge);
  EXPECT_LE(growth.most(), kSmallBudget);
}

}  // namespace
}  // namespace starling
