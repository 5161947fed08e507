#include "embedding_store/row_file.h"

#include <fstream>
#include <map>
#include <vector>

#include "base/random.h"
#include "embedding_store/row_layout.h"
#include "embedding_store/table_test_util.h"

namespace starling {
namespace {

// A row file's content, as ReadAll gives it.
struct Content {
  struct Row {
    RowMeta meta;
    bool tombstone;
    std::vector<float> floats;
  };
  std::vector<uint64_t> ids;
  std::map<uint64_t, Row> rows;
  std::map<std::string, std::string> extras;
};

absl::StatusOr<Content> Read(const std::string& path) {
  absl::StatusOr<std::unique_ptr<RowFileReader>> reader = RowFileReader::Open(path);
  if (!reader.ok()) return reader.status();
  Content content;
  absl::Status status = (*reader)->ReadAll(
      [&](const RowRecord& r) {
        content.ids.push_back(r.id);
        content.rows[r.id] = {r.meta, r.tombstone, {r.floats.begin(), r.floats.end()}};
        return absl::OkStatus();
      },
      &content.extras);
  if (!status.ok()) return status;
  return content;
}

RowFileHeader MakeHeader() { return {MakeSpec("adagrad"), 5, 6}; }

// `rows` rows, every fourth a tombstone, and two extras.
absl::Status WriteSample(const std::string& path, int rows) {
  auto writer = RowFileWriter::Create(path, MakeHeader());
  if (!writer.ok()) return writer.status();
  for (uint64_t id : MakeIds(0, rows)) {
    std::vector<float> floats(11, static_cast<float>(id % 1000));
    RowRecord row{.id = id, .meta = {static_cast<int64_t>(id % 77), 3, 9}, .floats = floats};
    row.tombstone = id % 4 == 0;
    if (absl::Status s = (*writer)->Append(row); !s.ok()) return s;
  }
  if (absl::Status s = (*writer)->AddExtra("empty", ""); !s.ok()) return s;
  if (absl::Status s = (*writer)->AddExtra("state", "some bytes"); !s.ok()) return s;
  return (*writer)->Finish();
}

// Without the fsync of real files: hundreds are written here.
void Overwrite(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

TEST(RowFileTest, ReadsBackWhatWasWrittenAcrossBlocks) {
  TestDir dir;
  const int rows = 60'000;  // Three blocks of 1 MiB.
  ASSERT_OK(WriteSample(dir.File("a.rows"), rows));
  absl::StatusOr<Content> content = Read(dir.File("a.rows"));
  ASSERT_OK(content.status());
  EXPECT_EQ(content->ids, MakeIds(0, rows));
  EXPECT_EQ(content->extras,
            (std::map<std::string, std::string>{{"empty", ""}, {"state", "some bytes"}}));
  for (const auto& [id, row] : content->rows) {
    ASSERT_EQ(row.meta.event_time, static_cast<int64_t>(id % 77));
    ASSERT_EQ(row.meta.frequency, 3u);
    ASSERT_EQ(row.meta.epoch, 9u);
    ASSERT_EQ(row.tombstone, id % 4 == 0);
    ASSERT_EQ(row.floats.size(), row.tombstone ? 0 : 11);
    if (row.tombstone) continue;
    ASSERT_EQ(row.floats[10], static_cast<float>(id % 1000));
  }
}

TEST(RowFileTest, HeaderAndCountAreKnownBeforeReading) {
  TestDir dir;
  ASSERT_OK(WriteSample(dir.File("a.rows"), 10));
  auto reader = RowFileReader::Open(dir.File("a.rows"));
  ASSERT_OK(reader.status());
  EXPECT_EQ((*reader)->rows(), 10);
  EXPECT_EQ((*reader)->header().width, 5);
  EXPECT_EQ((*reader)->header().state_size, 6);
  EXPECT_EQ((*reader)->header().spec.SerializeAsString(), MakeHeader().spec.SerializeAsString());
}

TEST(RowFileTest, EveryTruncationIsDataLoss) {
  TestDir dir;
  ASSERT_OK(WriteSample(dir.File("a.rows"), 20));
  absl::StatusOr<std::string> bytes = ReadFile(dir.File("a.rows"));
  ASSERT_OK(bytes.status());
  for (size_t length = 0; length < bytes->size(); ++length) {
    Overwrite(dir.File("cut.rows"), bytes->substr(0, length));
    absl::Status status = Read(dir.File("cut.rows")).status();
    ASSERT_TRUE(absl::IsDataLoss(status)) << "length " << length << ": " << status;
    ASSERT_NE(status.message().find("cut.rows: offset "), absl::string_view::npos) << status;
  }
}

TEST(RowFileTest, EveryBitFlipIsRefused) {
  TestDir dir;
  ASSERT_OK(WriteSample(dir.File("a.rows"), 20));
  absl::StatusOr<std::string> bytes = ReadFile(dir.File("a.rows"));
  ASSERT_OK(bytes.status());
  const uint64_t seed = 11;
  for (uint64_t i = 0; i < 600; ++i) {
    std::string damaged = *bytes;
    uint64_t bit = RandomBelow(seed, i, damaged.size() * 8);
    damaged[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    Overwrite(dir.File("flip.rows"), damaged);
    ASSERT_TRUE(absl::IsDataLoss(Read(dir.File("flip.rows")).status())) << "bit " << bit;
  }
}

TEST(RowFileTest, UnfinishedFileIsRefused) {
  TestDir dir;
  {
    auto writer = RowFileWriter::Create(dir.File("a.rows"), MakeHeader());
    ASSERT_OK(writer.status());
    std::vector<float> floats(11);
    ASSERT_OK((*writer)->Append({.id = 1, .floats = floats}));
  }
  EXPECT_TRUE(absl::IsDataLoss(Read(dir.File("a.rows")).status()));
}

TEST(RowFileTest, MissingFileIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(Read("no/such/file.rows").status()));
}

TEST(RowFileTest, RowsOutOfOrderAreNotWritten) {
  TestDir dir;
  std::vector<uint64_t> ids = MakeIds(0, 2);
  std::vector<float> floats(11);
  auto writer = RowFileWriter::Create(dir.File("a.rows"), MakeHeader());
  ASSERT_OK(writer.status());
  ASSERT_OK((*writer)->Append({.id = ids[1], .floats = floats}));
  EXPECT_FALSE((*writer)->Append({.id = ids[0], .floats = floats}).ok());
  EXPECT_FALSE((*writer)->Append({.id = ids[1], .floats = floats}).ok());
}

}  // namespace
}  // namespace starling
