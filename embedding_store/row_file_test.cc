#include "embedding_store/row_file.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "base/crc32c.h"
#include "base/random.h"
#include "embedding_store/row_block.h"
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

// `rows` rows, every fourth a tombstone, and two extras. Files of other `frequency` have the same
// size.
absl::StatusOr<FileSetEntry> WriteEntry(const std::string& path, int rows, uint32_t frequency) {
  auto writer = RowFileWriter::Create(path, MakeHeader());
  if (!writer.ok()) return writer.status();
  for (uint64_t id : MakeIds(0, rows)) {
    std::vector<float> floats(11, static_cast<float>(id % 1000));
    RowRecord row{
        .id = id, .meta = {static_cast<int64_t>(id % 77), frequency, 9}, .floats = floats};
    row.tombstone = id % 4 == 0;
    if (absl::Status s = (*writer)->Append(row); !s.ok()) return s;
  }
  if (absl::Status s = (*writer)->AddExtra("empty", ""); !s.ok()) return s;
  if (absl::Status s = (*writer)->AddExtra("state", "some bytes"); !s.ok()) return s;
  return (*writer)->Finish();
}
absl::Status WriteSample(const std::string& path, int rows) {
  return WriteEntry(path, rows, 3).status();
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

TEST(RowFileTest, ABlockOfRowsStandsBesideSingleOnes) {
  TestDir dir;
  RowFileHeader header = MakeHeader();
  auto layout = RowLayout::Create(header.spec);
  ASSERT_OK(layout.status());
  RowBlock block(*layout, 300);
  std::vector<char> bytes(sizeof(RowHeader) + layout->body_bytes());
  auto* row = new (bytes.data()) RowHeader;
  std::vector<float> floats(layout->floats(), 2.5f);
  layout->Pack(floats, row->body());
  uint64_t ids = 0;
  while (!block.full()) {
    row->id = ++ids;
    row->set_meta({.event_time = 70, .frequency = 3, .epoch = 9});
    block.Add(*layout, *row);
  }
  ASSERT_GT(ids, 1u);
  auto sorted = RowFileWriter::Create(dir.File("sorted.rows"), header);
  ASSERT_OK(sorted.status());
  EXPECT_TRUE(absl::IsInternal((*sorted)->AppendBlock(block)));  // Nobody checks its order.

  header.sorted = false;
  auto writer = RowFileWriter::Create(dir.File("a.rows"), header);
  ASSERT_OK(writer.status());
  ASSERT_OK((*writer)->Append({.id = 1000, .tombstone = true}));
  ASSERT_OK((*writer)->AppendBlock(block));
  ASSERT_OK((*writer)->Append({.id = 1001, .tombstone = true}));
  ASSERT_OK((*writer)->Finish().status());
  absl::StatusOr<Content> content = Read(dir.File("a.rows"));
  ASSERT_OK(content.status());
  ASSERT_EQ(content->ids.size(), ids + 2);
  EXPECT_EQ(content->ids.front(), 1000u);
  EXPECT_EQ(content->ids.back(), 1001u);
  EXPECT_EQ(content->rows[ids].meta, (RowMeta{.event_time = 70, .frequency = 3, .epoch = 9}));
  EXPECT_EQ(content->rows[ids].floats, floats);
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
  const std::string path = dir.File("cut.rows");
  ASSERT_OK(WriteSample(path, 20));
  for (size_t length = std::filesystem::file_size(path); length-- > 0;) {
    std::filesystem::resize_file(path, length);
    absl::Status status = Read(path).status();
    ASSERT_TRUE(absl::IsDataLoss(status)) << "length " << length << ": " << status;
    ASSERT_NE(status.message().find("cut.rows: offset "), absl::string_view::npos) << status;
  }
}

TEST(RowFileTest, EveryBitFlipIsRefused) {
  TestDir dir;
  const std::string path = dir.File("flip.rows");
  ASSERT_OK(WriteSample(path, 20));
  absl::StatusOr<std::string> bytes = ReadFile(path);
  ASSERT_OK(bytes.status());
  auto put = [&](size_t offset, char byte) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  };
  for (size_t offset = 0; offset < bytes->size(); ++offset) {
    const char byte = (*bytes)[offset];
    put(offset, static_cast<char>(byte ^ (1 << RandomBelow(11, offset, 8))));
    ASSERT_TRUE(absl::IsDataLoss(Read(path).status())) << "offset " << offset;
    put(offset, byte);
  }
  ASSERT_OK(Read(path).status());
}

// What readers of a third of the buckets each see of the file, and the first error.
struct Shared {
  std::vector<uint64_t> ids;
  std::map<std::string, std::string> extras;
  absl::Status status;
};
Shared ReadInThree(const std::string& path, std::optional<uint32_t> crc32c = std::nullopt) {
  Shared shared;
  for (int part = 0; part < 3; ++part) {
    BucketRuns share{.runs = 0, .shift = 8};  // 16 runs.
    for (int run = part; run < 16; run += 3) share.runs |= uint64_t{1} << run;
    auto reader = RowFileReader::Open(path, crc32c);
    shared.status.Update(reader.status());
    if (!reader.ok()) continue;
    shared.status.Update((*reader)->ReadShare(
        share,
        [&](std::span<RowRecord> rows) {
          for (const RowRecord& row : rows) {
            EXPECT_EQ((BucketOf(row.id) >> 8) % 3, part);
            if (!row.tombstone) {
              EXPECT_EQ(row.floats[10], static_cast<float>(row.id % 1000));
            }
            shared.ids.push_back(row.id);
          }
          return absl::OkStatus();
        },
        part == 1 ? &shared.extras : nullptr));
  }
  return shared;
}

TEST(RowFileTest, SharesOfAFileAreAllOfIt) {
  TestDir dir;
  ASSERT_OK(WriteSample(dir.File("a.rows"), 60'000));
  Shared shared = ReadInThree(dir.File("a.rows"));
  ASSERT_OK(shared.status);
  std::sort(shared.ids.begin(), shared.ids.end(), IdBefore);
  EXPECT_EQ(shared.ids, MakeIds(0, 60'000));
  EXPECT_EQ(shared.extras["state"], "some bytes");
}

// Blocks that hold rows of one reader alone, and one without rows, which is everybody's.
TEST(RowFileTest, WhoReadsAllSharesNoticesEveryBitFlip) {
  TestDir dir;
  const std::string path = dir.File("flip.rows");
  RowFileHeader header = MakeHeader();
  header.sorted = false;
  auto writer = RowFileWriter::Create(path, header);
  ASSERT_OK(writer.status());
  auto layout = RowLayout::Create(header.spec);
  ASSERT_OK(layout.status());
  for (uint64_t id : MakeIds(0, 20)) {
    RowBlock block(*layout, 1);
    std::vector<char> bytes(sizeof(RowHeader) + layout->body_bytes());
    auto* row = new (bytes.data()) RowHeader{.id = id};
    layout->Pack(std::vector<float>(layout->floats(), static_cast<float>(id % 1000)), row->body());
    block.Add(*layout, *row);
    ASSERT_OK((*writer)->AppendBlock(block));
  }
  ASSERT_OK((*writer)->AddExtra("state", "some bytes"));
  ASSERT_OK((*writer)->Finish().status());
  ASSERT_OK(ReadInThree(path).status);
  const std::string good = *ReadFile(path);
  for (size_t offset = 0; offset < good.size(); ++offset) {
    std::string bad = good;
    bad[offset] = static_cast<char>(bad[offset] ^ (1 << RandomBelow(12, offset, 8)));
    std::ofstream(path, std::ios::binary) << bad;
    ASSERT_TRUE(absl::IsDataLoss(ReadInThree(path).status)) << "offset " << offset;
  }
}

// One whose own checksums are all right, though a manifest means another.
TEST(RowFileTest, AFileThatAnotherStandsForIsRefusedByEveryShare) {
  TestDir dir;
  const std::string path = dir.File("a.rows");
  for (int rows : {0, 1, 20, 60'000}) {  // Without a block, with one, with several.
    auto other = WriteEntry(path, rows, 4);
    ASSERT_OK(other.status());
    auto entry = WriteEntry(path, rows, 3);
    ASSERT_OK(entry.status());
    ASSERT_EQ(entry->bytes, other->bytes);
    EXPECT_EQ(entry->crc32c, Crc32c(*ReadFile(path)));
    ASSERT_OK(ReadInThree(path, entry->crc32c).status);
    if (rows == 0) continue;  // The two are equal.
    for (uint64_t runs : {~uint64_t{0}, uint64_t{1}, uint64_t{0}}) {
      auto reader = RowFileReader::Open(path, other->crc32c);
      ASSERT_OK(reader.status());
      const absl::Status status = (*reader)->ReadShare(
          {.runs = runs}, [](std::span<RowRecord>) { return absl::OkStatus(); }, nullptr);
      EXPECT_TRUE(absl::IsDataLoss(status)) << rows << " rows: " << status;
      EXPECT_NE(status.message().find(path), absl::string_view::npos) << status;
    }
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
