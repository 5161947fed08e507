// What tests of clients and servers share: servers of a job on loopback, and
// what a model sees through a client.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ps/parameter_client.h"
#include "ps/ps_server.h"
#include "ps/store_testing.h"

namespace starling {

inline absl::Status PullAndWait(ParameterClient& client, TestBatch& batch, std::span<float> dense,
                                PullMode mode = PullMode::kCreate) {
  std::promise<absl::Status> done;
  client.Pull(mode, batch.keys, batch.row_spans, dense,
              [&](absl::Status status) { done.set_value(std::move(status)); });
  return done.get_future().get();
}

inline absl::Status PushAndWait(ParameterClient& client, const BatchName& name, TestBatch& batch) {
  std::promise<absl::Status> done;
  client.Push(name, 0.5f, batch.keys, batch.grad_spans, batch.dense,
              [&](absl::Status status) { done.set_value(std::move(status)); });
  return done.get_future().get();
}

// Servers of one job on loopback.
struct Cluster {
  explicit Cluster(int shards) {
    for (int s = 0; s < shards; ++s) {
      PsServerOptions options;
      options.shard = s;
      options.shards = shards;
      options.scratch_dir = TestPath("scratch");
      auto server = PsServer::Start(options);
      EXPECT_TRUE(server.ok()) << server.status();
      servers.push_back(*std::move(server));
      options_.servers.push_back(absl::StrCat("127.0.0.1:", servers[s]->port()));
    }
  }
  absl::StatusOr<std::unique_ptr<ParameterClient>> Connect(
      const StoreConfig& config = TestConfig(),
      const std::vector<float>& dense = RandomFloats(kTestDense, 5)) {
    return NewRemoteClient(options_, config, dense);
  }
  std::unique_ptr<PsControl> Control() { return *PsControl::Connect(options_.servers); }

  std::vector<std::unique_ptr<PsServer>> servers;
  RemoteClientOptions options_;
};

// What a model would see: all rows and dense values of the first 200 ids.
struct Seen {
  explicit Seen(ParameterClient& client) : batch(1, 1000), dense(kTestDense) {
    absl::Status status = PullAndWait(client, batch, dense, PullMode::kReadOnly);
    EXPECT_TRUE(status.ok()) << status;
  }
  bool operator==(const Seen& other) const {
    return batch.ids == other.batch.ids && batch.rows == other.batch.rows && dense == other.dense;
  }
  TestBatch batch;
  std::vector<float> dense;
};

inline void Train(ParameterClient& client, uint32_t first, uint32_t last) {
  for (uint32_t i = first; i < last; ++i) {
    TestBatch batch(i);
    std::vector<float> dense(kTestDense);
    absl::Status status = PullAndWait(client, batch, dense);
    if (status.ok()) status = PushAndWait(client, NameOf(i), batch);
    ASSERT_TRUE(status.ok()) << status;
  }
}

// A local client that starts as the clusters do.
struct Local {
  Local() : store(TestStore(TestConfig())), client(NewLocalClient(store.get())) {
    EXPECT_TRUE(store->SetDense(RandomFloats(kTestDense, 5)).ok());
  }
  std::unique_ptr<ParameterStore> store;
  std::unique_ptr<ParameterClient> client;
};

}  // namespace starling
