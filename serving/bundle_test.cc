#include "serving/bundle.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>

#include <limits>

#include "base/file_set.h"
#include "serving/read_only_table.h"
#include "serving/test_bundle.h"

namespace starling {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;

const char* const kFiles[] = {
    "MANIFEST",  "features.json",    "tables.json",           "graph.json",
    "dense.bin", "table-users.rows", "table-items%2Fall.rows"};

void ExpectLoadFails(const std::string& dir, absl::StatusCode code, const std::string& named) {
  auto bundle = Bundle::Load(dir);
  ASSERT_FALSE(bundle.ok()) << named;
  EXPECT_EQ(bundle.status().code(), code) << bundle.status();
  EXPECT_THAT(std::string(bundle.status().message()), HasSubstr(named));
}

void WriteRaw(const std::string& path, absl::string_view bytes) {
  auto file = CreateFile(path);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Append(bytes).ok());
  ASSERT_TRUE((*file)->Close().ok());
}

TEST(BundleTest, LoadGivesBackWhatWasWritten) {
  std::string dir = TestDir("round_trip");
  ASSERT_TRUE(WriteTestBundle(dir, 3).ok());
  auto bundle = Bundle::Load(dir);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  BundleSpec want = TestSpec(3);
  const BundleSpec& got = (*bundle)->spec();
  EXPECT_TRUE(MessageDifferencer::Equals(got.features, want.features));
  EXPECT_TRUE(MessageDifferencer::Equals(got.tables, want.tables));
  EXPECT_TRUE(MessageDifferencer::Equals(got.graph, want.graph));
  EXPECT_EQ(got.info.model(), "clicks");
  EXPECT_EQ(got.info.version(), 3u);
  EXPECT_EQ(got.info.step(), 30);
  std::vector<float> dense = TestDense(want);
  EXPECT_TRUE(
      std::equal(dense.begin(), dense.end(), (*bundle)->dense().begin(), (*bundle)->dense().end()));
  for (int t = 0; t < 2; ++t) {
    std::vector<uint64_t> ids = TestIds(t);
    EXPECT_EQ((*bundle)->rows(t), static_cast<int64_t>(ids.size()));
    EXPECT_EQ((*bundle)->table(t).width(), 5);
    ids.push_back(12345);  // Unknown.
    std::vector<float> rows(ids.size() * 5, -1.0f);
    ASSERT_TRUE((*bundle)->table(t).Lookup(ids, rows).ok());
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      EXPECT_EQ(std::vector<float>(&rows[i * 5], &rows[i * 5] + 5), TestRow(3, ids[i]));
    }
    EXPECT_EQ(std::vector<float>(rows.end() - 5, rows.end()), std::vector<float>(5, 0.0f));
  }
}

TEST(BundleTest, TablesWithoutRowsAreFine) {
  std::string dir = TestDir("no_rows");
  BundleSpec spec = TestSpec(1);
  auto none = [](int, const std::function<absl::Status(const RowRecord&)>&) {
    return absl::OkStatus();
  };
  ASSERT_TRUE(WriteBundle(dir, spec, TestDense(spec), none).ok());
  auto bundle = Bundle::Load(dir);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ((*bundle)->rows(0), 0);
  std::vector<uint64_t> ids = {1, 2};
  std::vector<float> rows(10, 7.0f);
  ASSERT_TRUE((*bundle)->table(0).Lookup(ids, rows).ok());
  EXPECT_EQ(rows, std::vector<float>(10, 0.0f));
}

TEST(BundleTest, AnyTruncationIsDetectedAndNamed) {
  std::string dir = TestDir("truncated");
  ASSERT_TRUE(WriteTestBundle(dir, 1).ok());
  for (const std::string name : kFiles) {
    std::string path = JoinPath(dir, name);
    std::string whole = *ReadFile(path);
    for (size_t keep : {size_t{0}, whole.size() / 2, whole.size() - 1}) {
      WriteRaw(path, absl::string_view(whole).substr(0, keep));
      ExpectLoadFails(dir, absl::StatusCode::kDataLoss, name);
    }
    WriteRaw(path, whole);
  }
  EXPECT_TRUE(Bundle::Load(dir).ok());
}

TEST(BundleTest, AnyFlippedBitIsDetectedAndNamed) {
  std::string dir = TestDir("flipped");
  ASSERT_TRUE(WriteTestBundle(dir, 1).ok());
  for (const std::string name : kFiles) {
    std::string path = JoinPath(dir, name);
    std::string whole = *ReadFile(path);
    for (int i = 0; i < 8; ++i) {
      std::string bad = whole;
      size_t at = RandomBelow(7, i, whole.size());
      bad[at] ^= static_cast<char>(1 << i);
      WriteRaw(path, bad);
      ExpectLoadFails(dir, absl::StatusCode::kDataLoss, name);
    }
    WriteRaw(path, whole);
  }
  EXPECT_TRUE(Bundle::Load(dir).ok());
}

TEST(BundleTest, AMissingFileIsNamed) {
  std::string dir = TestDir("missing");
  ASSERT_TRUE(WriteTestBundle(dir, 1).ok());
  for (const std::string name : kFiles) {
    if (name == "MANIFEST") continue;
    std::string path = JoinPath(dir, name);
    std::string whole = *ReadFile(path);
    ASSERT_TRUE(RemoveAll(path).ok());
    ExpectLoadFails(dir, absl::StatusCode::kDataLoss, name);
    WriteRaw(path, whole);
  }
}

TEST(BundleTest, WithoutManifestThereIsNoBundle) {
  std::string dir = TestDir("no_manifest");
  ASSERT_TRUE(WriteTestBundle(dir, 1).ok());
  ASSERT_TRUE(RemoveAll(JoinPath(dir, "MANIFEST")).ok());
  ExpectLoadFails(dir, absl::StatusCode::kNotFound, dir);
  ExpectLoadFails(dir + "/nowhere", absl::StatusCode::kNotFound, dir + "/nowhere");
}

TEST(BundleTest, SpecsThatDisagreeAreNotServed) {
  std::string dir = TestDir("disagree");
  BundleSpec spec = TestSpec(1);
  spec.graph.set_table_width(1, 6);
  ASSERT_TRUE(WriteBundle(dir, spec, {}, TestRows(1)).ok());
  ExpectLoadFails(dir, absl::StatusCode::kDataLoss, "table 1");
}

TEST(BundleTest, AFailureAtAnyWriteLeavesNothing) {
  std::string dir = TestDir("faults");
  int operations = 0;
  SetFileFault([&](absl::string_view op, absl::string_view) {
    if (op != "remove") ++operations;
    return absl::OkStatus();
  });
  ASSERT_TRUE(WriteTestBundle(dir, 1).ok());
  ASSERT_GT(operations, 15);
  ASSERT_TRUE(RemoveAll(dir).ok());
  for (int fail_at = 0; fail_at < operations; ++fail_at) {
    int n = 0;
    SetFileFault([&](absl::string_view op, absl::string_view path) {
      if (op == "remove" || n++ != fail_at) return absl::OkStatus();
      return absl::ResourceExhaustedError(absl::StrCat(path, ": no space left"));
    });
    absl::Status status = WriteTestBundle(dir, 1);
    SetFileFault(nullptr);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << fail_at << ": " << status;
    EXPECT_FALSE(PathExists(dir)) << fail_at;
  }
  ASSERT_TRUE(WriteTestBundle(dir, 1).ok());
  EXPECT_TRUE(Bundle::Load(dir).ok());
}

TEST(BundleTest, LeftoversOfACrashAreOverwrittenAndStrangersStay) {
  std::string dir = TestDir("leftovers");
  ASSERT_TRUE(MakeDirs(dir).ok());
  WriteRaw(JoinPath(dir, "dense.bin"), "half a fi");
  WriteRaw(JoinPath(dir, "notes.txt"), "mine");
  std::vector<float> bad_dense = {std::numeric_limits<float>::quiet_NaN()};
  absl::Status status = WriteBundle(dir, TestSpec(1), bad_dense, TestRows(1));
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_EQ(*ListDir(dir), std::vector<std::string>({"dense.bin", "notes.txt"}));
  ASSERT_TRUE(WriteTestBundle(dir, 1).ok());
  EXPECT_TRUE(Bundle::Load(dir).ok());
  EXPECT_TRUE(PathExists(JoinPath(dir, "notes.txt")));
}

TEST(BundleTest, ABundleIsNeverOverwritten) {
  std::string dir = TestDir("twice");
  ASSERT_TRUE(WriteTestBundle(dir, 1).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(WriteTestBundle(dir, 2)));
  EXPECT_EQ((*Bundle::Load(dir))->spec().info.version(), 1u);
}

TEST(BundleTest, AWeightThatIsNotFiniteIsNotExported) {
  std::string dir = TestDir("nan");
  BundleSpec spec = TestSpec(1);
  auto rows = [](int, const std::function<absl::Status(const RowRecord&)>& emit) {
    std::vector<float> floats(5, std::numeric_limits<float>::infinity());
    return emit(RowRecord{.id = 4711, .floats = floats});
  };
  absl::Status status = WriteBundle(dir, spec, TestDense(spec), rows);
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("4711"));
  EXPECT_FALSE(PathExists(dir));
}

TEST(BundleTest, TheGreatestCompleteVersionIsCurrent) {
  std::string root = TestDir("root");
  EXPECT_TRUE(absl::IsNotFound(FindBundle(root).status()));
  ASSERT_TRUE(MakeDirs(root).ok());
  EXPECT_TRUE(absl::IsNotFound(FindBundle(root).status()));
  ASSERT_TRUE(WriteTestBundle(BundleVersionDir(root, 2), 2).ok());
  ASSERT_TRUE(WriteTestBundle(BundleVersionDir(root, 10), 10).ok());
  ASSERT_TRUE(WriteTestBundle(JoinPath(root, "v99"), 99).ok());  // Not a version's name.
  ASSERT_TRUE(MakeDirs(BundleVersionDir(root, 11)).ok());        // Still being written.
  EXPECT_EQ(*ListBundleVersions(root), std::vector<uint64_t>({2, 10}));
  EXPECT_EQ(*FindBundle(root), BundleVersionDir(root, 10));
  EXPECT_EQ(*FindBundle(BundleVersionDir(root, 2)), BundleVersionDir(root, 2));
}

TEST(ReadOnlyTableTest, FindsEveryIdAndNoOther) {
  constexpr int kRows = 20000;
  auto table = ReadOnlyTable::Create(kRows, 3);
  ASSERT_TRUE(table.ok());
  std::vector<uint64_t> ids;
  for (int i = 0; i < kRows; ++i) {
    ids.push_back(i % 2 == 0 ? i : RandomBits(1, i));  // Dense and spread.
    std::vector<float> row = {static_cast<float>(i), 1, 2};
    ASSERT_TRUE((*table)->Add(ids.back(), row));
    ASSERT_FALSE((*table)->Add(ids.back(), row));
  }
  for (int i = 0; i < kRows; ++i) ids.push_back(RandomBits(2, i));
  std::vector<float> rows(ids.size() * 3, -1.0f);
  ASSERT_TRUE((*table)->Lookup(ids, rows).ok());
  for (int i = 0; i < kRows; ++i) {
    ASSERT_EQ(rows[i * 3], static_cast<float>(i));
    ASSERT_EQ(rows[(kRows + i) * 3 + 1], 0.0f);
  }
  EXPECT_FALSE((*table)->Add(1, {rows.data(), 3})) << "no room is left";
}

}  // namespace
}  // namespace starling
