#include "sample_io/batch_reader.h"

#include <arrow/table.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/stages.h"
#include "sample_io/parquet_test_util.h"

namespace starling {
namespace {

using testing::HasSubstr;

// Rows are told apart by the raw feature x: 0, 1, 2 … over all files.
class BatchReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = FreshDir();
    FeatureSet set;
    set.set_tables(1);
    set.add_ids()->set_name("a");
    set.mutable_ids(0)->set_table(0);
    set.add_raws()->set_name("x");
    set.set_label("y");
    compiler_ = *FeatureCompiler::Create(set);
    options_.batch_rows = 10;
    options_.shuffle = true;
    options_.seed = 5;
    options_.job = 77;
  }

  // `files` files of two row groups each, of 37 and 18 rows.
  void WriteFiles(int files, const std::map<int, std::string>& labels = {}) {
    for (int f = 0; f < files; ++f) {
      std::vector<std::string> a, x, y;
      for (int i = 0; i < 55; ++i) {
        int row = f * 55 + i;
        a.push_back(absl::StrCat(row % 13));
        x.push_back(absl::StrCat(row));
        auto bad = labels.find(row);
        y.push_back(bad != labels.end() ? bad->second : absl::StrCat(row % 2));
      }
      auto json = [](const auto& v) { return absl::StrCat("[", absl::StrJoin(v, ","), "]"); };
      TestFileOptions options;
      options.row_group_rows = 37;
      WriteParquet(absl::StrCat(dir_, "/data/", f, ".parquet"),
                   *MakeTable({{"a", arrow::int64(), json(a)},
                               {"x", arrow::float64(), json(x)},
                               {"y", arrow::float32(), json(y)}}),
                   options);
    }
    source_ = *SampleSource::Open({dir_ + "/data"});
  }

  std::unique_ptr<BatchReader> Open(const ReaderPosition& start = {}) {
    auto reader = BatchReader::Create(source_.get(), compiler_.get(), options_, start);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  }

  struct Read {
    BatchName name;
    std::vector<float> rows;
    ReaderPosition after;
    bool operator==(const Read& o) const { return name == o.name && rows == o.rows; }
  };
  std::vector<Read> ReadAll(BatchReader* reader, absl::Status* end = nullptr) {
    std::vector<Read> all;
    Batch batch;
    absl::Status status;
    while ((status = reader->Next(&batch)).ok()) {
      all.push_back({batch.name, batch.dense, reader->position()});
    }
    if (end != nullptr) {
      *end = status;
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
    }
    return all;
  }
  static std::multiset<int> Rows(const std::vector<Read>& reads) {
    std::multiset<int> rows;
    for (const Read& read : reads) rows.insert(read.rows.begin(), read.rows.end());
    return rows;
  }
  static std::multiset<int> Range(int n) {
    std::multiset<int> rows;
    for (int i = 0; i < n; ++i) rows.insert(i);
    return rows;
  }

  std::string dir_;
  std::unique_ptr<SampleSource> source_;
  std::unique_ptr<FeatureCompiler> compiler_;
  BatchReaderOptions options_;
};

TEST_F(BatchReaderTest, EveryRowComesOnceInAnOrderThatThreadsDoNotChange) {
  WriteFiles(4);
  std::vector<Read> first;
  ThreadPool one(1), three(3);
  for (ThreadPool* pool : {static_cast<ThreadPool*>(nullptr), &one, &three}) {
    for (int threads = 1; threads <= 4; ++threads) {
      for (int queue : {1, 3, 8}) {
        options_.pool = pool;
        options_.threads = threads;
        options_.queue_max = queue;
        auto reader = Open();
        std::vector<Read> reads = ReadAll(reader.get());
        EXPECT_EQ(Rows(reads), Range(220));
        if (first.empty()) first = reads;
        EXPECT_EQ(reads, first);
      }
    }
  }
  // 37 rows make batches of 10, 10, 10 and 7; 18 rows of 10 and 8.
  EXPECT_EQ(first.size(), 4u * (4 + 2));
}

TEST_F(BatchReaderTest, OrderIsAFunctionOfSeedAndPass) {
  WriteFiles(3);
  auto read = [&](uint64_t seed, uint32_t pass) {
    options_.seed = seed;
    std::vector<float> rows;
    for (Read& r : ReadAll(Open({pass, 0, 0}).get())) {
      EXPECT_EQ(r.name.pass, pass);
      EXPECT_EQ(r.name.job, 77u);
      rows.insert(rows.end(), r.rows.begin(), r.rows.end());
    }
    return rows;
  };
  EXPECT_EQ(read(1, 0), read(1, 0));
  EXPECT_NE(read(1, 0), read(1, 1));
  EXPECT_NE(read(1, 0), read(2, 0));
}

TEST_F(BatchReaderTest, WithoutShuffleRowsComeAsTheyStand) {
  WriteFiles(2);
  options_.shuffle = false;
  options_.threads = 3;
  float next = 0;
  for (const Read& read : ReadAll(Open().get())) {
    for (float row : read.rows) EXPECT_EQ(row, next++);
  }
  EXPECT_EQ(next, 110);
}

// A batch's name tells what it holds: the split in the file list, whatever the order of the pass.
TEST_F(BatchReaderTest, NameBelongsToTheData) {
  WriteFiles(3);
  std::set<BatchName> names;
  for (const Read& read : ReadAll(Open().get())) {
    EXPECT_TRUE(names.insert(read.name).second);
    const int file = static_cast<int>(read.name.split) / 2, group = read.name.split % 2;
    for (float row : read.rows) {
      EXPECT_GE(row, file * 55 + group * 37);
      EXPECT_LT(row, group == 0 ? file * 55 + 37 : (file + 1) * 55);
    }
  }
  EXPECT_EQ(names.size(), 18u);
}

TEST_F(BatchReaderTest, ResumeAtAnyPositionGivesExactlyTheRest) {
  WriteFiles(2);
  ThreadPool pool(2);
  options_.threads = 2;
  options_.pool = &pool;  // A reader that ended leaves nothing to do in it.
  std::vector<Read> all = ReadAll(Open().get());
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<Read> rest = ReadAll(Open(all[i].after).get());
    EXPECT_EQ(rest, std::vector<Read>(all.begin() + i + 1, all.end())) << i;
  }
}

TEST_F(BatchReaderTest, PositionOfOtherDataIsRefused) {
  WriteFiles(1);
  ThreadPool pool(2);
  for (ReaderPosition bad : {ReaderPosition{0, 3, 0}, {0, 2, 1}, {0, 0, 9}}) {
    options_.pool = bad.batch == 9 ? &pool : nullptr;
    auto reader = BatchReader::Create(source_.get(), compiler_.get(), options_, bad);
    EXPECT_EQ(reader.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(BatchReaderTest, ShardsPartitionThePassAndResumeExactly) {
  WriteFiles(4);
  for (uint32_t shards : {1, 2, 3, 11}) {
    std::vector<Read> together;
    for (uint32_t shard = 0; shard < shards; ++shard) {
      options_.shard = shard;
      options_.shards = shards;
      std::vector<Read> own = ReadAll(Open().get());
      together.insert(together.end(), own.begin(), own.end());
      for (size_t i = 0; i < own.size(); i += 3) {
        EXPECT_EQ(ReadAll(Open(own[i].after).get()),
                  std::vector<Read>(own.begin() + i + 1, own.end()));
      }
    }
    EXPECT_EQ(Rows(together), Range(220)) << shards;
  }
}

TEST_F(BatchReaderTest, DestructionAtAnyInstantJoinsCleanly) {
  WriteFiles(4);
  ThreadPool pool(3);
  for (int round = 0; round < 50; ++round) {
    options_.pool = round % 2 == 0 ? nullptr : &pool;
    options_.threads = 1 + round % 4;
    options_.queue_max = 1 + round % 3;
    auto reader = Open();
    Batch batch;
    for (int i = 0; i < round / 2; ++i) reader->Next(&batch).IgnoreError();
    EXPECT_LE(reader->position().ordinal, 8u);
  }
}

TEST_F(BatchReaderTest, ErrorSurfacesInOrderAndStays) {
  WriteFiles(3);
  options_.shuffle = false;
  options_.threads = 4;
  options_.queue_max = 8;
  std::filesystem::remove(dir_ + "/data/1.parquet");
  ThreadPool three(3);
  for (ThreadPool* pool : {static_cast<ThreadPool*>(nullptr), &three}) {
    options_.pool = pool;
    absl::Status end;
    auto reader = Open();
    EXPECT_EQ(Rows(ReadAll(reader.get(), &end)), Range(55));
    EXPECT_EQ(end.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(end.message(), HasSubstr("1.parquet: row group 0"));
    Batch batch;
    EXPECT_EQ(reader->Next(&batch), end);
  }
}

TEST_F(BatchReaderTest, WrongColumnTypeNamesTheFile) {
  WriteFiles(1);
  FeatureSet set = compiler_->features();
  set.mutable_ids(0)->set_name("x");
  compiler_ = *FeatureCompiler::Create(set);
  absl::Status end;
  ReadAll(Open().get(), &end);
  EXPECT_EQ(end.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(end.message(), HasSubstr("0.parquet: row group"));
  EXPECT_THAT(end.message(), HasSubstr("column x"));
}

TEST_F(BatchReaderTest, BadRowsAreCountedAndMoveNoOtherRow) {
  WriteFiles(2);
  std::vector<Read> clean = ReadAll(Open().get());
  WriteFiles(2, {{3, "null"}, {40, "7"}, {70, "-1"}});
  auto reader = Open();
  std::vector<Read> reads = ReadAll(reader.get());
  EXPECT_EQ(reader->bad_rows(), 3);
  for (Read& read : clean) {
    std::erase_if(read.rows, [](float row) { return row == 3 || row == 40 || row == 70; });
  }
  EXPECT_EQ(reads, clean);
}

TEST_F(BatchReaderTest, BatchOfBadRowsAloneIsSkipped) {
  std::map<int, std::string> bad;
  for (int row = 10; row < 20; ++row) bad[row] = "null";
  WriteFiles(1, bad);
  options_.shuffle = false;
  auto reader = Open();
  std::vector<Read> reads = ReadAll(reader.get());
  EXPECT_EQ(reads.size(), 5u);
  EXPECT_EQ(reads[1].name.batch, 2u);
  EXPECT_EQ(reader->bad_rows(), 10);
}

TEST_F(BatchReaderTest, QuarantineHoldsEachBadRowWithItsPlaceAndReason) {
  WriteFiles(2, {{3, "null"}, {40, "7"}, {70, "-1"}});
  options_.quarantine = dir_ + "/q/bad.parquet";
  options_.shuffle = false;
  auto reader = Open();
  ReadAll(reader.get());
  // Complete at the end of the pass, before the reader goes.
  auto source = SampleSource::Open({options_.quarantine});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->rows(), 3);
  auto rows =
      (*source)->Read(0, {"a", "x", "y", "_file", "_row_group", "_row", "_column", "_reason"});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->Find("a")->strings[1], "1");
  EXPECT_EQ(rows->Find("x")->strings[1], "40");
  EXPECT_TRUE(rows->Find("y")->IsNull(0));
  EXPECT_EQ(rows->Find("y")->strings[2], "-1");
  EXPECT_EQ(rows->Find("_file")->strings[2], dir_ + "/data/1.parquet");
  EXPECT_EQ(rows->Find("_row_group")->ints[1], 1);
  EXPECT_EQ(rows->Find("_row")->ints[1], 3);
  EXPECT_EQ(rows->Find("_column")->strings[0], "y");
  EXPECT_THAT(std::string(rows->Find("_reason")->strings[1]), HasSubstr("7"));
  EXPECT_FALSE(PathExists(options_.quarantine + ".tmp"));
}

TEST_F(BatchReaderTest, QuarantineNamesTheRowOfTheFileThoughShuffled) {
  WriteFiles(1, {{3, "null"}, {40, "7"}});
  options_.quarantine = dir_ + "/q/bad.parquet";
  ReadAll(Open().get());
  auto rows = *(*SampleSource::Open({options_.quarantine}))->Read(0, {"x", "_row_group", "_row"});
  std::set<std::tuple<std::string, int64_t, int64_t>> places;
  for (int i = 0; i < 2; ++i) {
    places.emplace(std::string(rows.columns[0].strings[i]), rows.columns[1].ints[i],
                   rows.columns[2].ints[i]);
  }
  EXPECT_THAT(places,
              testing::ElementsAre(std::make_tuple("3", 0, 3), std::make_tuple("40", 1, 3)));
}

TEST_F(BatchReaderTest, QuarantineExistsOnlyForBadRowsAndIsNeverOverwritten) {
  options_.quarantine = dir_ + "/q/bad.parquet";
  WriteFiles(1);
  ReadAll(Open().get());
  EXPECT_FALSE(PathExists(options_.quarantine));
  WriteFiles(1, {{0, "2"}});
  options_.shuffle = false;
  {
    auto reader = Open();  // Destroyed half-way.
    Batch batch;
    ASSERT_TRUE(reader->Next(&batch).ok());
  }
  EXPECT_TRUE(PathExists(options_.quarantine));
  ReadAll(Open().get());
  EXPECT_EQ((*SampleSource::Open({options_.quarantine}))->rows(), 1);
  EXPECT_EQ((*SampleSource::Open({dir_ + "/q/bad-2.parquet"}))->rows(), 1);
}

TEST_F(BatchReaderTest, QuarantineThatCannotBeWrittenFailsNext) {
  WriteFiles(1, {{0, "2"}});
  WriteText(dir_ + "/file", "");
  options_.quarantine = dir_ + "/file/bad.parquet";
  absl::Status end;
  ReadAll(Open().get(), &end);
  EXPECT_FALSE(absl::IsOutOfRange(end));
  EXPECT_THAT(end.message(), HasSubstr(dir_ + "/file"));
}

TEST_F(BatchReaderTest, FullDiskInQuarantineFailsNextAndLeavesNoFile) {
  WriteFiles(1, {{0, "2"}});
  options_.quarantine = dir_ + "/q/bad.parquet";
  SetFileFault([](absl::string_view op, absl::string_view path) {
    return op == "append" ? absl::ResourceExhaustedError(absl::StrCat(path, ": disk full"))
                          : absl::OkStatus();
  });
  absl::Status end;
  ReadAll(Open().get(), &end);
  SetFileFault(nullptr);
  EXPECT_EQ(end.code(), absl::StatusCode::kResourceExhausted) << end;
  EXPECT_FALSE(PathExists(options_.quarantine));
}

TEST_F(BatchReaderTest, TooManyBadRowsFailAtTheEndOfAShortPass) {
  WriteFiles(2, {{3, "null"}, {40, "7"}});
  options_.bad_rows_max = 0.01;
  options_.quarantine = dir_ + "/q/bad.parquet";
  options_.shuffle = false;
  absl::Status end;
  EXPECT_EQ(Rows(ReadAll(Open().get(), &end)).size(), 108u);
  EXPECT_EQ(end.code(), absl::StatusCode::kFailedPrecondition);
  for (const char* word : {"2 of 110 rows", "worst column is y", "the label is null", "0.parquet",
                           "row 3", "bad_rows_max", "q/bad.parquet"}) {
    EXPECT_THAT(end.message(), HasSubstr(word));
  }
  EXPECT_EQ((*SampleSource::Open({options_.quarantine}))->rows(), 2);
}

TEST_F(BatchReaderTest, TooManyBadRowsStopALongPassAfterAThousandRows) {
  std::map<int, std::string> bad;
  for (int row = 0; row < 1600; row += 4) bad[row] = "null";
  WriteFiles(30, bad);
  options_.bad_rows_max = 0.2;
  absl::Status end;
  size_t rows = Rows(ReadAll(Open().get(), &end)).size();
  EXPECT_EQ(end.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_GE(rows, 700u);
  EXPECT_LE(rows, 800u);
}

TEST_F(BatchReaderTest, WithoutLabelsBadLabelsDoNotMatter) {
  WriteFiles(1, {{0, "null"}});
  options_.with_labels = false;
  EXPECT_EQ(Rows(ReadAll(Open().get())), Range(55));
}

TEST_F(BatchReaderTest, CountsItsStages) {
  WriteFiles(2);
  const StageUses before = ReadStages();
  auto reader = Open();
  const size_t batches = ReadAll(reader.get()).size();
  const StageUses uses = UseBetween(before, ReadStages());
  EXPECT_GT(uses[static_cast<int>(Stage::kRead)].busy, 0);
  EXPECT_GT(uses[static_cast<int>(Stage::kCompile)].busy, 0);
  const StageUse& taken = uses[static_cast<int>(Stage::kPrefetch)];
  EXPECT_GE(taken.taken, static_cast<int64_t>(batches));
  EXPECT_GE(taken.depth(), 1);
  EXPECT_LE(taken.depth(), taken.depth_most);
}

}  // namespace
}  // namespace starling
