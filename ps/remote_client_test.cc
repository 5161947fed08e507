#include <atomic>
#include <future>
#include <thread>

#include "base/sync_point.h"
#include "gtest/gtest.h"
#include "ps/cluster_testing.h"
#include "ps/ps_service.h"

namespace starling {
namespace {

class RemoteTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Servers, RemoteTest, testing::Values(1, 2, 3));

TEST_P(RemoteTest, LocalAndRemoteGiveIdenticalBits) {
  Cluster cluster(GetParam());
  auto remote = cluster.Connect();
  ASSERT_TRUE(remote.ok()) << remote.status();
  Local local;
  for (uint32_t i = 0; i < 10; ++i) {
    TestBatch here(i), there(i);
    std::vector<float> dense_here(kTestDense), dense_there(kTestDense);
    local.client->Prefetch(here.keys);
    (*remote)->Prefetch(there.keys);
    ASSERT_TRUE(PullAndWait(*local.client, here, dense_here).ok());
    ASSERT_TRUE(PullAndWait(**remote, there, dense_there).ok());
    EXPECT_EQ(here.rows, there.rows);
    EXPECT_EQ(dense_here, dense_there);
    for (int copies = 0; copies < 2; ++copies) {
      ASSERT_TRUE(PushAndWait(*local.client, NameOf(i), here).ok());
      ASSERT_TRUE(PushAndWait(**remote, NameOf(i), there).ok());
    }
  }
  EXPECT_TRUE(Seen(*local.client) == Seen(**remote));
  auto stats = cluster.Control()->GetStats();
  ASSERT_TRUE(stats.ok()) << stats.status();
  int64_t rows = 0;
  for (const PsControl::Stats& s : *stats) {
    EXPECT_EQ(s.batches_applied, 10);
    EXPECT_EQ(s.batches_repeated, 10);
    rows += s.rows;
  }
  EXPECT_EQ(rows, local.store->table(0).rows() + local.store->table(1).rows());
}

TEST_P(RemoteTest, SavedByTwoServersLoadsIntoAnyNumber) {
  std::string dir = TestPath("saved");
  Local local;
  Train(*local.client, 0, 6);
  std::vector<FileSetEntry> files;
  {
    Cluster writers(2);
    auto client = writers.Connect();
    ASSERT_TRUE(client.ok()) << client.status();
    Train(**client, 0, 6);
    auto saved = writers.Control()->Save(dir);
    ASSERT_TRUE(saved.ok()) << saved.status();
    files = *saved;
    EXPECT_EQ(files.size(), 7u);  // Two tables and the names from each, and dense.bin.
  }
  Cluster readers(GetParam());
  absl::Status status = readers.Control()->Load(TestConfig(), {{dir, files}});
  ASSERT_TRUE(status.ok()) << status;
  auto client = readers.Connect(TestConfig(), std::vector<float>(kTestDense));  // Not the first.
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE(Seen(**client) == Seen(*local.client));
  Train(**client, 4, 8);  // 4 and 5 are repeated.
  Train(*local.client, 6, 8);
  EXPECT_TRUE(Seen(**client) == Seen(*local.client));
}

TEST(PsServerTest, FirstConfigAndFirstDenseWin) {
  Cluster cluster(2);
  auto first = cluster.Connect();
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = cluster.Connect(TestConfig(), std::vector<float>(kTestDense, 9.0f));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(Seen(**second).dense, RandomFloats(kTestDense, 5));
  StoreConfig other = TestConfig();
  other.mutable_tables()->mutable_tables(1)->mutable_segments(0)->set_dim(8);
  absl::Status status = cluster.Connect(other).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("tables[1].segments[0].dim"), absl::string_view::npos) << status;
}

TEST(PsServerTest, ServersInTheWrongOrderAreRefused) {
  Cluster cluster(2);
  std::swap(cluster.options_.servers[0], cluster.options_.servers[1]);
  EXPECT_EQ(cluster.Connect().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(PsServerTest, CallsBeforeConfigureFail) {
  Cluster cluster(1);
  auto channel = ConnectRpc(cluster.options_.servers[0]);
  for (const char* method : {"Pull", "Push", "Cut", "Prefetch"}) {
    EXPECT_EQ(channel->CallAndWait("starling.Ps", method, {}, absl::Seconds(30)).status().code(),
              absl::StatusCode::kFailedPrecondition)
        << method;
  }
  EXPECT_EQ(channel->CallAndWait("starling.Ps", "Nope", {}, absl::Seconds(30)).status().code(),
            absl::StatusCode::kUnimplemented);
  auto stats = cluster.Control()->GetStats();
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(stats->at(0).rows, 0);
}

TEST(PsServerTest, WrongShapesAreInvalidAsTheyAreLocally) {
  Cluster cluster(2);
  auto remote = cluster.Connect();
  ASSERT_TRUE(remote.ok());
  TestBatch batch(1);
  std::vector<float> dense(kTestDense - 1);
  EXPECT_TRUE(absl::IsInvalidArgument(PullAndWait(**remote, batch, dense)));
  std::swap(batch.ids[0][0], batch.ids[0][1]);  // Out of order: found by a server.
  EXPECT_TRUE(absl::IsInvalidArgument(PullAndWait(**remote, batch, {})));
  EXPECT_TRUE(absl::IsInvalidArgument(PushAndWait(**remote, NameOf(0), batch)));
  batch.grad_spans[1] = batch.grad_spans[1].subspan(1);
  EXPECT_TRUE(absl::IsInvalidArgument(PushAndWait(**remote, NameOf(0), batch)));
}

// Every request that a client can send, cut short, made longer or altered.
TEST(PsServerTest, MalformedRequestsAreErrorsNeverACrash) {
  PsServerOptions options;
  options.scratch_dir = TestPath("scratch");
  PsService service(options, [] {});
  absl::Status status;
  auto call = [&](const std::string& method, const RpcMessage& message) {
    service.Handle("starling.Ps", method, message,
                   [&](const absl::StatusOr<RpcMessage>& reply) { status = reply.status(); });
    return status;
  };
  ConfigureRequest configure;
  *configure.mutable_config() = TestConfig();
  configure.set_shard(0);
  configure.set_shards(1);
  std::string dense(kTestDense * sizeof(float), '\0');
  EXPECT_FALSE(call("Configure", {configure.SerializeAsString(), dense + "abcd"}).ok());
  ASSERT_TRUE(call("Configure", {configure.SerializeAsString(), dense}).ok());

  TestBatch batch(1, 8);
  RpcMessage pull, push;
  PullRequest pull_request;
  PushRequest push_request;
  push_request.set_lr_scale(1);
  for (int t = 0; t < 2; ++t) {
    pull_request.add_tables()->set_ids(static_cast<int64_t>(batch.ids[t].size()));
    pull_request.mutable_tables(t)->set_has_counts(true);
    push_request.add_ids(static_cast<int64_t>(batch.ids[t].size()));
    AppendArray(batch.keys[t].ids, &pull.attachment);
    AppendArray(batch.keys[t].ids, &push.attachment);
  }
  for (int t = 0; t < 2; ++t) AppendArray(batch.keys[t].counts, &pull.attachment);
  for (int t = 0; t < 2; ++t) AppendArray(batch.grad_spans[t], &push.attachment);
  pull.body = pull_request.SerializeAsString();
  push.body = push_request.SerializeAsString();
  ASSERT_TRUE(call("Pull", pull).ok()) << status;
  for (const auto& [method, good] : {std::pair("Pull", pull), std::pair("Push", push)}) {
    for (size_t bytes = 0; bytes < good.attachment.size(); bytes += 3) {
      EXPECT_TRUE(
          absl::IsInvalidArgument(call(method, {good.body, good.attachment.substr(0, bytes)})))
          << method << " " << bytes << ": " << status;
    }
    EXPECT_TRUE(absl::IsInvalidArgument(call(method, {good.body, good.attachment + "x"})));
    for (uint64_t seed = 0; seed < 500; ++seed) {
      RpcMessage bad = good;
      bad.body[RandomBelow(seed, 0, bad.body.size())] = static_cast<char>(RandomBits(seed, 1));
      (void)call(method, bad);
    }
  }
  for (int64_t n : {int64_t{-1}, INT64_MAX, INT64_MAX / 8}) {
    pull_request.mutable_tables(0)->set_ids(n);
    push_request.set_ids(0, n);
    EXPECT_FALSE(call("Pull", {pull_request.SerializeAsString(), pull.attachment}).ok());
    EXPECT_FALSE(call("Push", {push_request.SerializeAsString(), push.attachment}).ok());
    EXPECT_FALSE(call("Prefetch", {push_request.SerializeAsString(), push.attachment}).ok());
  }
  EXPECT_TRUE(call("Pull", pull).ok()) << status;
}

// A server that applies pushes but loses the first replies to them.
TEST(RemoteClientTest, PushWhoseReplyIsLostAppliesOnce) {
  PsServerOptions options;
  options.scratch_dir = TestPath("scratch");
  PsService service(options, [] {});
  std::atomic<int> lose{3};
  auto lossy = StartRpcServer(
      {}, [&](absl::string_view name, absl::string_view method, RpcMessage request, RpcDone reply) {
        service.Handle(name, method, request, [&](absl::StatusOr<RpcMessage> result) {
          if (method == "Push" && lose.fetch_sub(1) > 0) return;
          reply(std::move(result));
        });
      });
  ASSERT_TRUE(lossy.ok());
  RemoteClientOptions to;
  to.servers = {absl::StrCat("127.0.0.1:", (*lossy)->port())};
  to.timeout_s = 0.5;
  auto client = NewRemoteClient(to, TestConfig(), RandomFloats(kTestDense, 5));
  ASSERT_TRUE(client.ok()) << client.status();
  Train(**client, 0, 2);
  Local local;
  Train(*local.client, 0, 2);
  EXPECT_TRUE(Seen(**client) == Seen(*local.client));
  EXPECT_LE(lose.load(), 0);
  StatsReply stats;
  service.Handle("starling.Ps", "Stats", {}, [&](absl::StatusOr<RpcMessage> reply) {
    ASSERT_TRUE(stats.ParseFromString(reply->body));
  });
  EXPECT_EQ(stats.batches_applied(), 2);
  EXPECT_GE(stats.batches_repeated(), 3);
}

// The connection dies between applying and answering; the same store comes
// back at the same address, as after a network fault.
TEST(RemoteClientTest, PushResentAfterTheConnectionDiedAppliesOnce) {
  PsServerOptions options;
  options.scratch_dir = TestPath("scratch");
  PsService service(options, [] {});
  std::promise<void> applied;
  std::atomic<bool> lost{false};
  auto handler = [&](absl::string_view name, absl::string_view method, RpcMessage request,
                     RpcDone reply) {
    service.Handle(name, method, request, [&](absl::StatusOr<RpcMessage> result) {
      if (method == "Push" && !lost.exchange(true)) return applied.set_value();
      reply(std::move(result));
    });
  };
  auto server = StartRpcServer({}, handler);
  ASSERT_TRUE(server.ok());
  RpcServerOptions same;
  same.address = absl::StrCat("127.0.0.1:", (*server)->port());
  RemoteClientOptions to;
  to.servers = {same.address};
  auto client = NewRemoteClient(to, TestConfig(), RandomFloats(kTestDense, 5));
  ASSERT_TRUE(client.ok()) << client.status();
  std::thread restart([&] {
    applied.get_future().wait();
    server->reset();
    server = StartRpcServer(same, handler);
    EXPECT_TRUE(server.ok()) << server.status();
  });
  Train(**client, 0, 3);
  restart.join();
  Local local;
  Train(*local.client, 0, 3);
  EXPECT_TRUE(Seen(**client) == Seen(*local.client));
}

TEST(RemoteClientTest, ServerThatNeverComesIsUnavailable) {
  std::string address = Cluster(1).options_.servers[0];
  RemoteClientOptions options;
  options.servers = {address};
  options.retry_s = 0.1;
  absl::Status status = NewRemoteClient(options, TestConfig(), {}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(status.message().find(address), absl::string_view::npos) << status;
}

TEST(RemoteClientTest, ServerThatDiesForGoodEndsTheCallOnce) {
  Cluster cluster(2);
  cluster.options_.retry_s = 0.2;
  auto client = cluster.Connect();
  ASSERT_TRUE(client.ok());
  cluster.servers[1]->Stop();
  TestBatch batch(1);
  EXPECT_TRUE(absl::IsUnavailable(PushAndWait(**client, NameOf(0), batch)));
}

TEST(RemoteClientTest, ClosingTheClientEndsCallsThatAreBeingRetried) {
  Cluster cluster(2);
  auto client = cluster.Connect();
  ASSERT_TRUE(client.ok());
  for (auto& server : cluster.servers) server->Stop();
  TestBatch batch(1);
  std::atomic<int> ended{0};
  for (uint32_t i = 0; i < 5; ++i) {
    (*client)->Push(NameOf(i), 1, batch.keys, batch.grad_spans, {},
                    [&](const absl::Status& status) { ended += !status.ok(); });
  }
  client->reset();
  EXPECT_EQ(ended.load(), 5);
}

TEST(RemoteClientTest, WorkersAtOnceApplyEveryBatchOnce) {
  Cluster cluster(2);
  constexpr uint32_t kWorkers = 3, kBatches = 20;
  std::vector<std::thread> workers;
  for (uint32_t w = 0; w < kWorkers; ++w) {
    workers.emplace_back([&, w] {
      auto client = cluster.Connect();
      ASSERT_TRUE(client.ok()) << client.status();
      for (uint32_t i = 0; i < kBatches; ++i) {
        TestBatch batch(100 * w + i);
        std::vector<float> dense(kTestDense);
        EXPECT_TRUE(PullAndWait(**client, batch, dense).ok());
        EXPECT_TRUE(PushAndWait(**client, NameOf(i, w), batch).ok());
      }
    });
  }
  for (std::thread& w : workers) w.join();
  auto stats = cluster.Control()->GetStats();
  ASSERT_TRUE(stats.ok());
  for (const PsControl::Stats& s : *stats) EXPECT_EQ(s.batches_applied, kWorkers * kBatches);
}

}  // namespace
}  // namespace starling
