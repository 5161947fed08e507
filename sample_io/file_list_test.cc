#include "sample_io/file_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "sample_io/parquet_test_util.h"
#include "sample_io/path_pattern.h"

namespace starling {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(PathPatternTest, ListsAndRangesExpand) {
  EXPECT_THAT(ExpandLists("a{x,y}b{1,2}"), ElementsAre("axb1", "axb2", "ayb1", "ayb2"));
  EXPECT_THAT(ExpandLists("a{x,{y,z}}"), ElementsAre("ax", "ay", "ax", "az"));
  EXPECT_THAT(ExpandLists("a{x}"), ElementsAre("a{x}"));
  EXPECT_THAT(*ExpandRanges("d={08..11}"), ElementsAre("d=08", "d=09", "d=10", "d=11"));
  EXPECT_THAT(*ExpandRanges("{8..10}/{1..2}"),
              ElementsAre("8/1", "8/2", "9/1", "9/2", "10/1", "10/2"));
  EXPECT_THAT(*ExpandRanges("{a..b}"), ElementsAre("{a..b}"));
  for (const char* bad : {"{3..1}", "{0..100000}"}) {
    EXPECT_THAT(ExpandRanges(bad).status().message(), HasSubstr(bad));
  }
}

TEST(PathPatternTest, MatchesNamesNotAcrossSlashes) {
  EXPECT_TRUE(MatchesPath("b/*.csv", "b/x.csv"));
  EXPECT_FALSE(MatchesPath("b/*.csv", "b/c/x.csv"));
  EXPECT_TRUE(MatchesPathOrParent("b/ds=*/", "b/ds=1/h=2/x.csv"));
  EXPECT_FALSE(MatchesPathOrParent("b/ds=*", "b/x.csv"));
  EXPECT_FALSE(MatchesPathOrParent("b/*", "b/.hidden/x.csv"));
}

class FileListTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = FreshDir();
    for (const char* name : {"ds=01/a.parquet", "ds=02/a.csv", "ds=02/b.arrow", "ds=04/a.tsv.gz",
                             "ds=04/notes.txt", "ds=04/_tmp.csv", "odd{1..2}/a.arrows"}) {
      WriteText(absl::StrCat(dir_, "/", name), "");
    }
  }
  // Without the directory.
  std::vector<std::string> List(const std::vector<std::string>& patterns) {
    auto files = ListFiles(patterns);
    EXPECT_TRUE(files.ok()) << files.status();
    std::vector<std::string> out;
    for (const std::string& file : *files) out.push_back(file.substr(dir_.size() + 1));
    return out;
  }
  std::string Error(const std::string& pattern) {
    auto files = ListFiles({pattern});
    EXPECT_FALSE(files.ok());
    return std::string(files.status().message());
  }
  std::string dir_;
};

TEST_F(FileListTest, DirectoryHoldsEveryKnownExtension) {
  EXPECT_THAT(List({dir_}), ElementsAre("ds=01/a.parquet", "ds=02/a.csv", "ds=02/b.arrow",
                                        "ds=04/a.tsv.gz", "odd{1..2}/a.arrows"));
  EXPECT_THAT(List({"file://" + dir_ + "/ds=01"}), ElementsAre("ds=01/a.parquet"));
}

TEST_F(FileListTest, RangeTakesTheNumbersThatExist) {
  EXPECT_THAT(List({dir_ + "/ds={01..03}"}),
              ElementsAre("ds=01/a.parquet", "ds=02/a.csv", "ds=02/b.arrow"));
  EXPECT_THAT(List({dir_ + "/ds={02..09}/a.*"}), ElementsAre("ds=02/a.csv", "ds=04/a.tsv.gz"));
  EXPECT_THAT(Error(dir_ + "/ds={05..09}"), HasSubstr("ds={05..09}: no number of the range"));
  EXPECT_THAT(Error(dir_ + "/ds={1..4}"), HasSubstr("no number of the range"));
}

TEST_F(FileListTest, MemberOfAListMustExist) {
  EXPECT_THAT(List({dir_ + "/ds={04,01}/"}), ElementsAre("ds=01/a.parquet", "ds=04/a.tsv.gz"));
  EXPECT_THAT(Error(dir_ + "/ds={01,03}/"), HasSubstr("ds=03"));
}

TEST_F(FileListTest, PathThatExistsIsMeantLiterally) {
  EXPECT_THAT(List({dir_ + "/odd{1..2}"}), ElementsAre("odd{1..2}/a.arrows"));
}

TEST_F(FileListTest, ManifestListsPathsRelativeToItself) {
  WriteText(dir_ + "/list.txt",
            absl::StrCat("# days\n\nds=01/a.parquet  # first\n", dir_, "/ds=02\n"));
  WriteText(dir_ + "/x.manifest", "ds={03..04}\r\n");
  EXPECT_THAT(List({"@" + dir_ + "/list.txt"}),
              ElementsAre("ds=01/a.parquet", "ds=02/a.csv", "ds=02/b.arrow"));
  EXPECT_THAT(List({dir_ + "/x.manifest"}), ElementsAre("ds=04/a.tsv.gz"));
  EXPECT_THAT(Error("@" + dir_ + "/none"), HasSubstr("cannot be read"));
  WriteText(dir_ + "/list.txt", "# nothing\n");
  EXPECT_THAT(Error("@" + dir_ + "/list.txt"), HasSubstr("names no file"));
  WriteText(dir_ + "/list.txt", "gone.parquet\n");
  EXPECT_THAT(Error("@" + dir_ + "/list.txt"), HasSubstr("gone.parquet"));
  WriteText(dir_ + "/list.txt", "\n@other\n");
  EXPECT_THAT(Error("@" + dir_ + "/list.txt"), HasSubstr("line 2"));
}

TEST_F(FileListTest, RemotePathsWithCredentialsAreRefusedWithoutRepeatingThem) {
  const std::string error = Error("s3://key:secret@bucket/x");
  EXPECT_THAT(error, HasSubstr("credentials"));
  EXPECT_THAT(error, testing::Not(HasSubstr("secret@")));
}

TEST(HiveKeysTest, OptionsOfARemotePathAreNoKeys) {
  auto keys = HiveKeys("s3://b/ds=7/a.parquet?region=x/y=z/w");
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_EQ(keys[0].second, "7");
}

}  // namespace
}  // namespace starling
