// The power goes at any write of a checkpoint, and what was not synced goes
// with it: the last complete checkpoint, or the new one, is there whole.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

#include "absl/strings/match.h"
#include "ps/store_testing.h"
#include "scheduler/checkpointer.h"

namespace starling {
namespace {

// What a disk holds: contents by path, directories with an empty name behind them.
using Image = std::map<std::string, std::string>;

// A model of a page cache in front of a disk. An fsync of a file makes its
// content durable, one of a directory the names in it. Of the rest, either
// nothing has reached the disk, or all names and no content.
class PageCache {
 public:
  explicit PageCache(const std::string& base) : base_(base) { SyncDirectory(base); }

  // As a FileFault: before each operation it keeps what a loss of power would leave.
  absl::Status Before(absl::string_view op, const std::string& path) {
    std::lock_guard lock(mu_);
    Keep();
    struct stat info;
    if (op != "sync" || ::stat(path.c_str(), &info) != 0) return absl::OkStatus();
    if (S_ISDIR(info.st_mode)) {
      SyncDirectory(path);
    } else {
      std::ifstream in(path, std::ios::binary);
      contents_[info.st_ino] = std::string(std::istreambuf_iterator<char>(in), {});
    }
    return absl::OkStatus();
  }
  std::set<Image> TakeImages() {
    std::lock_guard lock(mu_);
    Keep();
    return std::exchange(images_, {});
  }

 private:
  struct Entry {
    ino_t inode;
    bool directory;
  };
  using Directory = std::map<std::string, Entry>;

  static Directory List(const std::string& path) {
    Directory entries;
    DIR* dir = ::opendir(path.c_str());
    if (dir == nullptr) return entries;
    while (dirent* entry = ::readdir(dir)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") entries[name] = {entry->d_ino, entry->d_type == DT_DIR};
    }
    ::closedir(dir);
    return entries;
  }
  void SyncDirectory(const std::string& path) { names_[path] = List(path); }
  void Keep() {
    for (bool all_names : {false, true}) {
      Image image;
      Walk(base_, "", all_names, &image);
      images_.insert(std::move(image));
    }
  }
  void Walk(const std::string& dir, const std::string& relative, bool all_names, Image* image) {
    for (const auto& [name, entry] : all_names ? List(dir) : names_[dir]) {
      const std::string path = relative + name;
      if (entry.directory) {
        (*image)[path + "/"];
        Walk(JoinPath(dir, name), path + "/", all_names, image);
      } else {
        (*image)[path] = contents_[entry.inode];
      }
    }
  }

  const std::string base_;
  std::mutex mu_;
  std::map<ino_t, std::string> contents_;   // Durable.
  std::map<std::string, Directory> names_;  // Durable, by directory.
  std::set<Image> images_;
};

class PowerLossTest : public testing::Test {
 protected:
  PowerLossTest() : base_(TestPath("disk")), after_(TestPath("after")) {
    EXPECT_TRUE(MakeDirs(base_).ok());
  }
  ~PowerLossTest() override {
    SetFileFault(nullptr);
    for (const std::string& path : {base_, after_}) EXPECT_TRUE(RemoveAll(path).ok());
  }

  // The store that a restart after the loss would have; null: no checkpoint.
  std::unique_ptr<StoreContent> Restart(const Image& image) {
    std::filesystem::remove_all(after_);
    std::filesystem::create_directories(after_);
    for (const auto& [path, content] : image) {
      if (absl::EndsWith(path, "/")) {
        std::filesystem::create_directory(JoinPath(after_, path));
      } else {
        std::ofstream(JoinPath(after_, path), std::ios::binary) << content;
      }
    }
    absl::StatusOr<Checkpoint> latest = LatestCheckpoint(JoinPath(after_, "run/ckpt"));
    if (!latest.ok()) return nullptr;
    auto store = TestStore(TestConfig());
    const absl::Status status = store->Load(latest->chain);
    EXPECT_TRUE(status.ok()) << status;
    auto content = std::make_unique<StoreContent>();
    content->Add(*store);
    return content;
  }

  const std::string base_, after_;
};

TEST_F(PowerLossTest, AtAnyWriteLeavesTheLastCompleteCheckpointOrTheNewOne) {
  std::unique_ptr<ParameterStore> store = TestStore(TestConfig());
  PageCache cache(base_);
  Checkpointer checkpointer({JoinPath(base_, "run/ckpt"), 2}, store.get());
  std::unique_ptr<StoreContent> before;  // Of the last complete checkpoint.
  size_t images = 0;
  for (uint32_t step = 0; step < 4; ++step) {  // Full, incremental, full, incremental.
    TestBatch batch(step, 10);
    bool applied = false;
    ASSERT_TRUE(store->PullRows(PullMode::kCreate, batch.keys, batch.row_spans).ok());
    ASSERT_TRUE(PushBatch(*store, NameOf(step), batch, &applied).ok());
    StoreContent now;
    now.Add(*store);
    SetFileFault([&](absl::string_view op, absl::string_view path) {
      return cache.Before(op, std::string(path));
    });
    CheckpointInfo info;
    info.mutable_state()->set_step(step);
    ASSERT_TRUE(checkpointer.Start(info, {.keep = 1}).ok());
    ASSERT_TRUE(checkpointer.Wait().ok());
    SetFileFault(nullptr);
    const std::set<Image> on_the_way = cache.TakeImages();
    images += on_the_way.size();
    for (const Image& image : on_the_way) {
      const std::unique_ptr<StoreContent> found = Restart(image);
      if (found == nullptr) {
        EXPECT_EQ(before, nullptr) << "step " << step << ": no checkpoint is left";
      } else {
        EXPECT_TRUE(*found == now || (before != nullptr && *found == *before)) << "step " << step;
      }
    }
    for (const Image& image : cache.TakeImages()) {
      const std::unique_ptr<StoreContent> found = Restart(image);
      EXPECT_TRUE(found != nullptr && *found == now) << "complete, yet not on disk: step " << step;
    }
    before = std::make_unique<StoreContent>(now);
  }
  EXPECT_GT(images, 50u);
}

}  // namespace
}  // namespace starling
