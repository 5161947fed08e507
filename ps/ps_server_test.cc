#include "ps/ps_server.h"

#include <mutex>
#include <thread>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "base/file.h"
#include "base/sync_point.h"
#include "ps/cluster_testing.h"

namespace starling {
namespace {

// A save that runs beside pushes is one instant of each server: the rows of a
// shard are those of the names it wrote.
TEST(PsServerTest, SaveBesidePushesIsOneInstant) {
  Cluster cluster(1);
  auto client = cluster.Connect();
  ASSERT_TRUE(client.ok());
  std::string dir = TestPath("saved");
  absl::StatusOr<std::vector<FileSetEntry>> files;
  std::thread save;
  for (uint32_t i = 0; i < 30; ++i) {
    if (i == 10) save = std::thread([&] { files = cluster.Control()->Save(dir); });
    Train(**client, i, i + 1);
  }
  save.join();
  ASSERT_TRUE(files.ok()) << files.status();
  Cluster again(1);
  ASSERT_TRUE(again.Control()->Load(TestConfig(), {{dir, *files}}).ok());
  auto resumed = again.Connect();
  ASSERT_TRUE(resumed.ok());
  Train(**resumed, 0, 30);  // A replay from the start: what was saved is skipped.
  EXPECT_TRUE(Seen(**resumed) == Seen(**client));
}

TEST(PsServerTest, ACutOfAllServersHoldsItsInstantThoughCallsGoOn) {
  Cluster cluster(3);
  auto client = cluster.Connect();
  ASSERT_TRUE(client.ok());
  auto control = cluster.Control();
  absl::Notification trained;
  std::vector<StoredCut> chain;
  std::vector<uint32_t> since;
  for (uint32_t i = 0; i < 3; ++i) {  // A full one, and two over it.
    Train(**client, 2 * i, 2 * i + 2);
    if (i == 2) {
      SetSyncPointHandler([&](absl::string_view name) {
        if (name == "store.snapshot.start") trained.WaitForNotification();
      });
    }
    std::string dir = TestPath(absl::StrCat("cut-", i));
    auto cut = control->StartCut(dir, {.since = since});
    ASSERT_TRUE(cut.ok()) << cut.status();
    if (i == 2) {
      Train(**client, 6, 9);
      trained.Notify();
    }
    auto files = (*cut)->Wait();
    ASSERT_TRUE(files.ok()) << files.status();
    chain.push_back({dir, *files});
    since = (*cut)->epochs();
    EXPECT_EQ(since.size(), 6u) << "two tables on each server";
    control->ForgetBefore(since);
  }
  SetSyncPointHandler(nullptr);
  Local local;
  Train(*local.client, 0, 6);
  Cluster again(2);
  absl::Status status = again.Control()->Load(TestConfig(), chain);
  ASSERT_TRUE(status.ok()) << status;
  auto resumed = again.Connect();
  ASSERT_TRUE(resumed.ok());
  EXPECT_TRUE(Seen(**resumed) == Seen(*local.client));
}

TEST(PsServerTest, ACutThatOneServerCannotWriteFailsAndTheNextWorks) {
  Cluster cluster(2);
  auto client = cluster.Connect();
  ASSERT_TRUE(client.ok());
  Train(**client, 0, 3);
  auto control = cluster.Control();
  SetFileFault([](absl::string_view op, absl::string_view path) {
    return op == "append" && absl::StrContains(path, "-1-of-2")
               ? absl::ResourceExhaustedError("disk full")
               : absl::OkStatus();
  });
  absl::Status status = control->Save(TestPath("full")).status();
  SetFileFault(nullptr);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(control->Save(TestPath("full")).ok());
}

TEST(PsServerTest, StopByRpcAnswersThenEndsWait) {
  Cluster cluster(2);
  auto control = cluster.Control();
  std::thread waits([&] { cluster.servers[0]->Wait(); });
  absl::Status status = control->Stop();
  EXPECT_TRUE(status.ok()) << status;
  waits.join();
  cluster.servers[1]->Wait();
  EXPECT_TRUE(absl::IsUnavailable(control->GetStats().status()));
}

TEST(PsServerTest, SyncPointsAreReachedInOrder) {
  std::mutex mu;
  std::vector<std::string> reached;
  SetSyncPointHandler([&](absl::string_view name) {
    std::lock_guard lock(mu);
    reached.emplace_back(name);
  });
  {
    Cluster cluster(1);
    auto client = cluster.Connect();
    ASSERT_TRUE(client.ok());
    Train(**client, 0, 1);
    EXPECT_TRUE(cluster.Control()->Save(TestPath("saved")).ok());
  }
  SetSyncPointHandler(nullptr);
  std::erase_if(reached, [](const std::string& name) { return name.rfind("ps:", 0) != 0; });
  EXPECT_EQ(reached, (std::vector<std::string>{"ps:configure", "ps:pulled", "ps:push_tables",
                                               "ps:push_dense", "ps:push_named", "ps:push_applied",
                                               "ps:save_start", "ps:table_cut", "ps:table_cut",
                                               "ps:small_parts_written", "ps:save_end"}));
}

}  // namespace
}  // namespace starling
