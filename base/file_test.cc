#include "base/file.h"

#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/file_set.h"
#include "base/metrics.h"
#include "base/optimizer.pb.h"
#include "base/status.h"
#include "base/test_root.h"

namespace starling {
namespace {

class FileTest : public testing::Test {
 protected:
  FileTest() : dir_(JoinPath(TestRoot(), "files")) { EXPECT_TRUE(MakeDirs(dir_).ok()); }
  ~FileTest() override {
    SetFileFault(nullptr);
    EXPECT_TRUE(RemoveAll(dir_).ok());
  }
  std::string Path(const std::string& name) { return JoinPath(dir_, name); }

  // A committed set of two files.
  std::vector<FileSetEntry> MakeSet(const std::string& name) {
    EXPECT_TRUE(MakeDirs(Path(name)).ok());
    std::vector<FileSetEntry> files = {*WriteSetFile(Path(name), "a", "hello"),
                                       *WriteSetFile(Path(name), "b", std::string(3 << 20, 'x'))};
    OptimizerOptions message;
    message.set_l2(0.5);
    EXPECT_TRUE(CommitFileSet(Path(name), "checkpoint", message, files).ok());
    return files;
  }

  const std::string dir_;
};

TEST(Crc32cTest, MatchesTheStandardCheckValue) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c("6789", Crc32c("12345")), 0xE3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32cTest, OfManyBytesIsThatOfTheirParts) {
  std::string bytes(50'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i >> 3);
  for (size_t begin : {0, 1, 7}) {
    uint32_t by_parts = 0;  // Each too short to be taken in lanes.
    const absl::string_view all = absl::string_view(bytes).substr(begin);
    for (size_t at = 0; at < all.size(); at += 1000)
      by_parts = Crc32c(all.substr(at, 1000), by_parts);
    EXPECT_EQ(Crc32c(all), by_parts) << begin;
  }
}

TEST(Crc32cTest, OfPartsJoinsToThatOfAll) {
  std::string bytes(70'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i >> 3);
  const absl::string_view all = bytes;
  for (size_t cut : {0, 1, 3, 4096, 65'537, 70'000}) {
    const absl::string_view after = all.substr(cut);
    EXPECT_EQ(JoinCrc32c(Crc32c(all.substr(0, cut)), Crc32c(after), after.size()), Crc32c(all))
        << cut;
  }
}

// Past the page cache only whole pieces can be written, so the borders matter.
TEST_F(FileTest, ALargeFileHoldsWhatWasAppended) {
  constexpr size_t kPiece = 1 << 20;
  std::string bytes(2 * kPiece + 777, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i % 251);
  for (size_t size : {size_t{0}, size_t{5}, kPiece - 1, kPiece, kPiece + 1, bytes.size()}) {
    for (size_t step : {size_t{4099}, kPiece + 3}) {
      for (bool flush : {false, true}) {
        auto file = CreateLargeFile(Path("f"));
        ASSERT_TRUE(file.ok()) << file.status();
        for (size_t at = 0; at < size; at += step) {
          ASSERT_TRUE(
              (*file)->Append(absl::string_view(bytes).substr(at, std::min(step, size - at))).ok());
          if (!flush || at > 2 * step) continue;
          ASSERT_TRUE((*file)->Flush().ok());
          EXPECT_EQ(ReadFile(Path("f"))->size(), std::min(at + step, size));
        }
        ASSERT_TRUE((*file)->Close().ok());
        EXPECT_TRUE(*ReadFile(Path("f")) == bytes.substr(0, size)) << size << " by " << step;
      }
    }
  }
}

TEST_F(FileTest, AtomicWriteLeavesTheOldContentWhenAnyStepFails) {
  ASSERT_TRUE(WriteFileAtomically(Path("f"), "old").ok());
  for (const char* op : {"create", "append", "sync", "rename"}) {
    SetFileFault([&](absl::string_view o, absl::string_view) {
      return o == op ? absl::ResourceExhaustedError("disk full") : absl::OkStatus();
    });
    EXPECT_EQ(WriteFileAtomically(Path("f"), "new").code(), absl::StatusCode::kResourceExhausted)
        << op;
    SetFileFault(nullptr);
    EXPECT_EQ(*ReadFile(Path("f")), "old") << op;
    EXPECT_EQ(ListDir(dir_)->size(), 1) << op;
  }
  ASSERT_TRUE(WriteFileAtomically(Path("f"), "new").ok());
  EXPECT_EQ(*ReadFile(Path("f")), "new");
}

TEST_F(FileTest, ErrorsNameThePathAndTheCode) {
  EXPECT_EQ(ReadFile(Path("absent")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(ReadFile(Path("absent")).status().message().find(Path("absent")), std::string::npos);
  EXPECT_FALSE(ReadFile(dir_).ok());
  ASSERT_TRUE(WriteFileAtomically(Path("plain"), "x").ok());
  EXPECT_FALSE(MakeDirs(Path("plain/below")).ok());
}

TEST_F(FileTest, FileSetExistsOnlyWithItsManifest) {
  ASSERT_TRUE(MakeDirs(Path("s1")).ok());
  ASSERT_TRUE(WriteSetFile(Path("s1"), "a", "hello").ok());
  OptimizerOptions message;
  EXPECT_EQ(OpenFileSet(Path("s1"), "checkpoint", &message).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(ListFileSets(dir_)->empty());
  MakeSet("s2");
  EXPECT_EQ(*ListFileSets(dir_), std::vector<std::string>{"s2"});
  auto files = OpenFileSet(Path("s2"), "checkpoint", &message);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(message.l2(), 0.5);
  EXPECT_TRUE(VerifyFileSet(Path("s2"), *files).ok());
  EXPECT_EQ(*ReadSetFile(Path("s2"), *files, "a"), "hello");
  EXPECT_EQ(OpenFileSet(Path("s2"), "bundle", &message).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(FileTest, EveryAlteredByteOfAManifestIsDetected) {
  MakeSet("s");
  std::string good = *ReadFile(Path("s/MANIFEST"));
  OptimizerOptions message;
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 0x04;
    ASSERT_TRUE(WriteFileAtomically(Path("s/MANIFEST"), bad).ok());
    EXPECT_FALSE(OpenFileSet(Path("s"), "checkpoint", &message).ok()) << "byte " << i;
    ASSERT_TRUE(WriteFileAtomically(Path("s/MANIFEST"), good.substr(0, i)).ok());
    EXPECT_FALSE(OpenFileSet(Path("s"), "checkpoint", &message).ok()) << "cut at " << i;
  }
}

TEST_F(FileTest, AlteredShortAndMissingFilesAreNamed) {
  std::vector<FileSetEntry> files = MakeSet("s");
  OptimizerOptions message;
  ASSERT_TRUE(WriteFileAtomically(Path("s/a"), "hellO").ok());
  EXPECT_TRUE(OpenFileSet(Path("s"), "checkpoint", &message).ok());
  absl::Status verified = VerifyFileSet(Path("s"), files);
  EXPECT_EQ(verified.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(verified.message().find(Path("s/a")), std::string::npos);
  EXPECT_EQ(ReadSetFile(Path("s"), files, "a").status().code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(WriteFileAtomically(Path("s/a"), "hell").ok());
  EXPECT_EQ(OpenFileSet(Path("s"), "checkpoint", &message).status().code(),
            absl::StatusCode::kDataLoss);
  ASSERT_TRUE(RemoveAll(Path("s/a")).ok());
  EXPECT_EQ(OpenFileSet(Path("s"), "checkpoint", &message).status().code(),
            absl::StatusCode::kDataLoss);
}

// A large file is read in pieces, whose checksums are joined.
TEST_F(FileTest, ThreadsNoticeAlteredBytesInEveryPieceOfALargeFile) {
  std::string bytes((20 << 20) + 77, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 20);
  ASSERT_TRUE(MakeDirs(Path("s")).ok());
  const std::vector<FileSetEntry> files = {*WriteSetFile(Path("s"), "large", bytes),
                                           *WriteSetFile(Path("s"), "empty", "")};
  for (int threads : {1, 3}) {
    EXPECT_TRUE(VerifyFileSet(Path("s"), files, threads).ok());
    for (size_t at : {size_t{0}, size_t{8} << 20, (size_t{16} << 20) - 1, bytes.size() - 1}) {
      std::string bad = bytes;
      bad[at] ^= 1;
      ASSERT_TRUE(WriteFileAtomically(Path("s/large"), bad).ok());
      EXPECT_TRUE(absl::IsDataLoss(VerifyFileSet(Path("s"), files, threads))) << at;
    }
    std::string swapped = bytes.substr(8 << 20, 8 << 20) + bytes.substr(0, 8 << 20);
    swapped += bytes.substr(16 << 20);
    ASSERT_TRUE(WriteFileAtomically(Path("s/large"), swapped).ok());
    EXPECT_TRUE(absl::IsDataLoss(VerifyFileSet(Path("s"), files, threads)));
    ASSERT_TRUE(WriteFileAtomically(Path("s/large"), bytes).ok());
  }
}

TEST(StatusTest, ExitCodesAreThoseOfTheManual) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("")), 2);
  EXPECT_EQ(ExitCodeOf(absl::FailedPreconditionError("")), 3);
  EXPECT_EQ(ExitCodeOf(absl::AbortedError("")), 4);
  EXPECT_EQ(ExitCodeOf(absl::DataLossError("")), 5);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("")), 138);
  EXPECT_EQ(ExitCodeOf(absl::CancelledError("")), 143);
}

TEST(MetricsTest, TheSameNameAndLabelsAreOneMetricInThePage) {
  GetCounter("starling_test_total", "A test.", {{"t", "x"}}).Add(2);
  GetCounter("starling_test_total", "A test.", {{"t", "x"}}).Add(3);
  GetGauge("starling_test_gauge", "A test.").Set(7);
  EXPECT_EQ(GetCounter("starling_test_total", "A test.", {{"t", "x"}}).Value(), 5);
  EXPECT_NE(MetricsText().find("starling_test_total{t=\"x\"} 5"), std::string::npos);
  EXPECT_NE(MetricsText().find("starling_test_gauge 7"), std::string::npos);
}

}  // namespace
}  // namespace starling
