// Record batches of Arrow IPC that are too large for the budget of memory are read
// in pieces, a column at a time: the same values, within the budget.
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_dict.h>
#include <arrow/array/builder_nested.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/io/file.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/writer.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/compression.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sample_io/memory_test_util.h"
#include "sample_io/parquet_test_util.h"
#include "sample_io/source.h"

namespace starling {
namespace {

using testing::HasSubstr;

void Check(const arrow::Status& status) { ASSERT_TRUE(status.ok()) << status.message(); }

// One record batch: numbers with nulls, strings, lists of these, and members of a struct.
std::shared_ptr<arrow::RecordBatch> TestBatch(int64_t rows, bool dictionary) {
  arrow::Int64Builder number;
  arrow::FloatBuilder single;
  arrow::StringBuilder text;
  arrow::StringDictionaryBuilder word;
  auto element = std::make_shared<arrow::StringBuilder>();
  arrow::ListBuilder list(arrow::default_memory_pool(), element);
  for (int64_t i = 0; i < rows; ++i) {
    Check(i % 5 == 0 ? number.AppendNull() : number.Append(i * i));
    Check(single.Append(static_cast<float>(i) / 8));
    Check(i % 7 == 0 ? text.AppendNull() : text.Append(absl::StrCat("text ", i)));
    Check(word.Append(absl::StrCat("word ", i % 50)));
    Check(list.Append());
    for (int64_t j = 0; j < i % 4; ++j) Check(element->Append(absl::StrCat(i, ".", j)));
  }
  arrow::ArrayVector arrays = {*number.Finish(), *single.Finish(), *text.Finish(), *list.Finish()};
  arrow::FieldVector fields = {
      arrow::field("number", arrow::int64()), arrow::field("single", arrow::float32()),
      arrow::field("text", arrow::utf8()), arrow::field("list", list.type())};
  if (dictionary) {
    arrays.push_back(*word.Finish());
    fields.push_back(arrow::field("word", arrays.back()->type()));
  }
  const auto user = *arrow::StructArray::Make({arrays[0], arrays[2]}, {fields[0], fields[2]});
  arrays.push_back(user);
  fields.push_back(arrow::field("user", user->type()));
  return arrow::RecordBatch::Make(arrow::schema(fields), rows, arrays);
}

// As an IPC file or stream, by the name.
void Write(const std::string& path, const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches,
           bool packed = false) {
  arrow::ipc::IpcWriteOptions options = arrow::ipc::IpcWriteOptions::Defaults();
  if (packed) options.codec = *arrow::util::Codec::Create(arrow::Compression::ZSTD);
  const auto out = *arrow::io::FileOutputStream::Open(path);
  const auto schema = batches[0]->schema();
  const auto writer = absl::EndsWith(path, ".arrows")
                          ? *arrow::ipc::MakeStreamWriter(out, schema, options)
                          : *arrow::ipc::MakeFileWriter(out, schema, options);
  for (const auto& batch : batches) Check(writer->WriteRecordBatch(*batch));
  Check(writer->Close());
  Check(out->Close());
}

// All values of all columns, row by row, column by column.
std::vector<std::string> Values(const SampleSource& source) {
  std::vector<std::string> names, values;
  for (const ColumnSchema& column : source.schema()) names.push_back(column.name);
  for (size_t split = 0; split < source.splits().size(); ++split) {
    auto batch = source.Read(static_cast<int>(split), names);
    EXPECT_TRUE(batch.ok()) << batch.status();
    for (int64_t row = 0; batch.ok() && row < batch->rows; ++row) {
      for (const Column& column : batch->columns) {
        values.push_back(column.IsNull(row) ? "null" : ValueText(column, row));
      }
    }
  }
  return values;
}

std::unique_ptr<SampleSource> Open(const std::string& path, int64_t read_memory) {
  return *SampleSource::Open({path}, {.read_memory = read_memory});
}

class IpcMemoryTest : public testing::TestWithParam<const char*> {};

TEST_P(IpcMemoryTest, ABatchInPiecesHoldsTheSameValues) {
  constexpr int64_t kRows = 20'000, kBudget = 8 << 20;
  for (const bool dictionary : {false, true}) {
    for (const bool packed : {false, true}) {
      const std::string path = absl::StrCat(FreshDir(), "/a", GetParam());
      Write(path, {TestBatch(kRows, dictionary), TestBatch(100, dictionary)}, packed);
      const auto whole = Open(path, 0), pieces = Open(path, kBudget);
      EXPECT_EQ(whole->splits().size(), 2u);
      EXPECT_GE(pieces->splits().size(), 4u) << "dictionary " << dictionary;
      EXPECT_TRUE(Values(*whole) == Values(*pieces))
          << "dictionary " << dictionary << ", packed " << packed;
      EXPECT_NE(whole->fingerprint(), pieces->fingerprint()) << "positions are others";
    }
  }
}

TEST_P(IpcMemoryTest, AHugeBatchIsReadWithinTheBudget) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory hides what is measured";
  constexpr int64_t kRows = 500'000, kBudget = 64 << 20;
  constexpr int kColumns = 40;  // 160 MB in one batch.
  const std::string path = absl::StrCat(FreshDir(), "/huge", GetParam());
  InAnotherProcess([&] {
    arrow::Int64Builder builder;
    for (int64_t i = 0; i < kRows; ++i) Check(builder.Append(i));
    const std::shared_ptr<arrow::Array> array = *builder.Finish();
    arrow::FieldVector fields;
    for (int c = 0; c < kColumns; ++c) {
      fields.push_back(arrow::field(absl::StrCat("c", c), arrow::int64()));
    }
    Write(path, {arrow::RecordBatch::Make(arrow::schema(fields), kRows,
                                          arrow::ArrayVector(kColumns, array))});
  });
  const MemoryGrowth growth;
  const auto source = Open(path, kBudget);
  std::vector<std::string> names;
  for (const ColumnSchema& column : source->schema()) names.push_back(column.name);
  int64_t next = 0;
  for (size_t split = 0; split < source->splits().size(); ++split) {
    const auto batch = source->Read(static_cast<int>(split), names);
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->columns[kColumns - 1].ints[0], next);
    next += batch->rows;
  }
  EXPECT_EQ(next, kRows);
  EXPECT_LE(growth.most(), kBudget / 2);
}

INSTANTIATE_TEST_SUITE_P(Formats, IpcMemoryTest, testing::Values(".arrow", ".arrows"));

// Dictionaries come before the batches that use them, and only by reading all.
TEST(IpcMemoryOfStreamTest, ABatchThatMustBeReadWholeIsRefusedBeyondTheBudget) {
  const std::string path = absl::StrCat(FreshDir(), "/a.arrows");
  Write(path, {TestBatch(10, true), TestBatch(20'000, true)});
  const auto source = SampleSource::Open({path}, {.read_memory = 1 << 20});
  ASSERT_FALSE(source.ok());
  EXPECT_EQ(source.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(source.status().message()),
              HasSubstr(path + ": record batch 1 takes 1 MiB and can only be read whole"));
}

// A label, which needs no dictionary, tells the rows of a batch.
TEST(IpcMemoryOfStreamTest, ABatchBeyondTheBudgetIsRefusedWithoutBeingRead) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory hides what is measured";
  constexpr int64_t kRows = 500'000;
  constexpr int kColumns = 40;  // 80 MB of indices in one batch.
  for (const std::string name : {"/huge.arrow", "/huge.arrows"}) {
    const std::string path = FreshDir() + name;
    InAnotherProcess([&] {
      arrow::StringDictionaryBuilder word;
      arrow::Int8Builder label;
      for (int64_t i = 0; i < kRows; ++i) {
        Check(word.Append(i % 2 == 0 ? "even" : "odd"));
        Check(label.Append(i % 2));
      }
      const std::shared_ptr<arrow::Array> words = *word.Finish();
      arrow::FieldVector fields;
      arrow::ArrayVector arrays(kColumns, words);
      for (int c = 0; c < kColumns; ++c) {
        fields.push_back(arrow::field(absl::StrCat("w", c), words->type()));
      }
      fields.push_back(arrow::field("label", arrow::int8()));
      arrays.push_back(*label.Finish());
      Write(path, {arrow::RecordBatch::Make(arrow::schema(fields), kRows, arrays)});
    });
    const MemoryGrowth growth;
    const auto source = SampleSource::Open({path}, {.read_memory = 32 << 20});
    EXPECT_EQ(source.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(source.status().message()), HasSubstr("can only be read whole"));
    EXPECT_LE(growth.most(), 8 << 20);
  }
}

}  // namespace
}  // namespace starling
