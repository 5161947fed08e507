// Several devices together train as one does with the joint batch. Runs with
// floats and, to a far closer tolerance, with doubles.
#include "dense_net/replicas.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "dense_net/collective.h"
#include "dense_net/dispatch.h"
#include "dense_net/take_rows.h"
#include "dense_net/test_world.h"

namespace starling {
namespace {

// Sums of some hundred terms in another order.
constexpr double kClose = 64 * std::numeric_limits<Real>::epsilon();

std::vector<const Device*> SomeDevices(int n) {
  return std::vector<const Device*>(n, &CpuDevice());
}

// Copies, forgets the originals, trains.
absl::StatusOr<TrainResult> TrainTogether(Replicas* replicas, Replicas::Buffer* buffer,
                                          const Network& network, World world,
                                          std::vector<Real> params, ThreadPool* pool = nullptr) {
  TrainResult result;
  result.scores.assign(world.batch.rows * network.outputs().size(), -77);
  result.param_grads.assign(params.size(), -77);
  std::vector<std::span<Real>> grads;
  for (const auto& table : world.rows) result.row_grads.emplace_back(table.size(), -77);
  for (auto& table : result.row_grads) grads.push_back(table);
  {
    const std::vector<std::span<const Real>> rows(world.rows.begin(), world.rows.end());
    absl::Status copied = replicas->CopyBatch(world.batch, buffer);
    world.batch = Batch();
    if (copied.ok()) copied = replicas->CopyRows(rows, params, buffer);
    if (!copied.ok()) return copied;
  }
  for (auto& table : world.rows) std::fill(table.begin(), table.end(), Real(NAN));
  std::fill(params.begin(), params.end(), Real(NAN));
  auto loss = replicas->Train(buffer, 5, pool, result.scores, grads, result.param_grads);
  if (!loss.ok()) return loss.status();
  result.loss = *loss;
  return result;
}

void ExpectClose(const std::vector<Real>& got, const std::vector<Real>& want, const char* what) {
  ASSERT_EQ(got.size(), want.size());
  double most = 0;
  for (Real x : want) most = std::max<double>(most, std::fabs(x));
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], kClose * (most + std::fabs(want[i]))) << what << " " << i;
  }
}

constexpr const char* kModels[] = {
    "lr {}",
    "deepfm { hidden: 20 hidden: 9 dropout: 0.2 }",
    "deepfm { hidden: 6 hidden: 5 batch_norm: true dropout: 0.25 }",
    "dcnv2 { cross_layers: 2 hidden: 8 activation: TANH }",
    "dlrm { bottom: 4 hidden: 5 }",
    "dnn { hidden: 5 hidden: 4 activation: DICE }",
    "din { attention { sequence: 's0' sequence: 's1' target: 'f00' target: 'f10' } "
    "attention_hidden: 5 hidden: 4 activation: DICE }",
    "dien { attention { sequence: 's0' sequence: 's1' target: 'f00' target: 'f10' } "
    "attention_hidden: 4 auxiliary_weight: 0.3 hidden: 3 dropout: 0.1 }",
    "esmm { hidden: 4 } | name: 'a' label: 'y0' | name: 'b' label: 'y1'",
    "mmoe { experts: 2 expert { hidden: 4 batch_norm: true } } | name: 'a' label: 'y0' loss { "
    "focal {} } | name: 'b' label: 'y1' given: 'y0' loss { mse {} }",
};

TEST(Replicas, TogetherEqualOneDeviceWithTheJointBatch) {
  for (const char* model : kModels) {
    for (const bool requests : {true, false}) {
      const World world = MakeWorld(model, {.rows = 100, .requests = requests});
      // A second batch of another size: buffers and workspaces are used again.
      const World less = MakeWorld(model, {.rows = 37, .ids = 5, .requests = requests, .seed = 9});
      auto network = MakeNetwork(world.spec, {.tile = 16, .lanes = 2, .sharing = Sharing::kNever});
      ASSERT_EQ(network->UnsharedOp(), "");
      const std::vector<Real> params = RandomParams(*network, 3);
      for (const int devices : {1, 2, 3}) {
        ThreadPool pool(2);
        auto replicas = Replicas::Create(network.get(), SomeDevices(devices), 4);
        auto buffer = replicas->NewBuffer();
        for (const World* w : {&world, &less, &world}) {
          SCOPED_TRACE(absl::StrCat(model, " on ", devices, ", rows ", w->batch.rows));
          auto want = RunTrain(*network, *w, params);
          auto got = TrainTogether(replicas.get(), buffer.get(), *network, *w, params, &pool);
          ASSERT_TRUE(want.ok() && got.ok()) << want.status() << got.status();
          // Means, moments and masks are the joint batch's: a row's score has the same bits.
          EXPECT_EQ(got->scores, want->scores);
          EXPECT_NEAR(got->loss, want->loss, 1e-14 + kClose * std::fabs(want->loss));
          ExpectClose(got->param_grads, want->param_grads, "parameter");
          for (size_t t = 0; t < w->rows.size(); ++t) {
            ExpectClose(got->row_grads[t], want->row_grads[t], "row");
          }
          // One bit pattern, whatever the threads do.
          auto again = TrainTogether(replicas.get(), buffer.get(), *network, *w, params);
          ASSERT_TRUE(again.ok());
          EXPECT_EQ(again->param_grads, got->param_grads);
          EXPECT_EQ(again->row_grads, got->row_grads);
        }
      }
    }
  }
}

TEST(Replicas, ProductsThatRowsShareAreSharedWithinAReplica) {
  const World world = MakeWorld("deepfm { hidden: 20 hidden: 9 }", {.rows = 100, .ids = 3});
  auto network = MakeNetwork(world.spec, {.tile = 16, .sharing = Sharing::kWhereverPossible});
  const std::vector<Real> params = RandomParams(*network, 3);
  auto replicas = Replicas::Create(network.get(), SomeDevices(2), 2);
  auto buffer = replicas->NewBuffer();
  auto want = RunTrain(*network, world, params);
  auto got = TrainTogether(replicas.get(), buffer.get(), *network, world, params);
  ASSERT_TRUE(want.ok() && got.ok());
  ExpectClose(got->scores, want->scores, "score");
  ExpectClose(got->param_grads, want->param_grads, "parameter");
  ExpectClose(got->row_grads[0], want->row_grads[0], "row");
}

TEST(Replicas, ADeviceWithoutATileTakesPart) {
  const World world = MakeWorld("deepfm { hidden: 6 batch_norm: true }", {.rows = 5});
  auto network = MakeNetwork(world.spec, {.tile = 4, .sharing = Sharing::kNever});
  const std::vector<Real> params = RandomParams(*network, 3);
  auto replicas = Replicas::Create(network.get(), SomeDevices(4), 4);
  auto buffer = replicas->NewBuffer();
  auto want = RunTrain(*network, world, params);
  auto got = TrainTogether(replicas.get(), buffer.get(), *network, world, params);
  ASSERT_TRUE(want.ok() && got.ok()) << got.status();
  EXPECT_EQ(got->scores, want->scores);
  ExpectClose(got->param_grads, want->param_grads, "parameter");
}

TEST(Replicas, LossesOverTheWholeBatchAreNamed) {
  const World pairs =
      MakeWorld("dnn { hidden: 4 } | name: 'rank' label: 'y0' loss { pairwise {} }", {.rows = 4});
  EXPECT_NE(MakeNetwork(pairs.spec)->UnsharedOp(), "");
  const World towers = MakeWorld(
      "dssm { user: 'f00' user: 'r0' item: 'f01' item: 'f10' item: 'f11' item: 'r1' tower { "
      "hidden: 3 } } | name: 'a' label: 'y1' loss { sampled_softmax {} }",
      {.rows = 4});
  EXPECT_NE(MakeNetwork(towers.spec)->UnsharedOp(), "");
}

TEST(Replicas, ALossThatIsNotFiniteNamesTheOpOfOneDevice) {
  World world = MakeWorld("dnn { hidden: 6 hidden: 5 batch_norm: true }", {.rows = 40});
  world.batch.dense.back() = std::numeric_limits<float>::infinity();  // The last replica's.
  auto network = MakeNetwork(world.spec, {.tile = 8});
  const std::vector<Real> params = RandomParams(*network, 3);
  auto replicas = Replicas::Create(network.get(), SomeDevices(2), 2);
  auto buffer = replicas->NewBuffer();
  const absl::Status want = RunTrain(*network, world, params).status();
  EXPECT_TRUE(absl::IsAborted(want));
  EXPECT_EQ(TrainTogether(replicas.get(), buffer.get(), *network, world, params).status(), want);
}

// A CPU that fails when told to.
class FailingDevice : public Device {
 public:
  FailingDevice() : Device(CpuKernelSets().back()) {}
  void* Allocate(int64_t bytes) const override { return CpuDevice().Allocate(bytes); }
  void Free(void* memory) const override { CpuDevice().Free(memory); }
  void Upload(int64_t bytes, const void* host, void* device) const override {
    uploaded += bytes;
    CpuDevice().Upload(bytes, host, device);
  }
  void Download(int64_t bytes, const void* device, void* host) const override {
    CpuDevice().Download(bytes, device, host);
  }
  absl::Status Finish() const override {
    return --finishes == 0 ? absl::InternalError("a device is lost") : absl::OkStatus();
  }
  mutable std::atomic<int> finishes{0};
  mutable std::atomic<int64_t> uploaded{0};
};

TEST(Replicas, ALostDeviceEndsTheCopyOrTheStep) {
  const World world = MakeWorld("deepfm { hidden: 6 batch_norm: true }", {.rows = 40});
  auto network = MakeNetwork(world.spec, {.tile = 8});
  const std::vector<Real> params = RandomParams(*network, 3);
  for (const int finish : {1, 2, 3, 4}) {  // The batch; rows; the step; none of one step.
    FailingDevice device;
    device.finishes = finish;
    auto replicas = Replicas::Create(network.get(), {&CpuDevice(), &device}, 2);
    auto buffer = replicas->NewBuffer();
    const auto got = TrainTogether(replicas.get(), buffer.get(), *network, world, params);
    EXPECT_EQ(got.ok(), finish == 4);
    EXPECT_EQ(got.status().message(), finish == 4 ? "" : "a device is lost");
    EXPECT_GT(device.uploaded, 0);
  }
}

TEST(TakeRows, PartsHoldTheirRowsAndIdsOnce) {
  const World world = MakeWorld(kModels[6], {.rows = 50, .ids = 60});
  for (const auto& [first, rows] :
       {std::pair<uint32_t, uint32_t>{0, 50}, {0, 7}, {7, 23}, {50, 0}}) {
    Batch part;
    PartIds ids;
    TakeRows(world.batch, first, rows, &part, &ids);
    EXPECT_EQ(part.rows, rows);
    for (size_t t = 0; t < part.tables.size(); ++t) {
      const TableIds& table = part.tables[t];
      const TableIds& whole = world.batch.tables[t];
      ASSERT_EQ(table.ids.size(), ids.whole_of[t].size());
      EXPECT_LE(table.ids.size(), rows == 50 ? 60 : 59);
      for (size_t u = 0; u < table.ids.size(); ++u) {
        EXPECT_EQ(table.ids[u], whole.ids[ids.whole_of[t][u]]);
        EXPECT_EQ(ids.part_of[t][ids.whole_of[t][u]], u);
        EXPECT_LT(table.occurrence_offsets[u], table.occurrence_offsets[u + 1]);
      }
    }
    Batch linked = part;
    LinkOccurrences(&linked);
    for (size_t t = 0; t < part.tables.size(); ++t) {
      EXPECT_EQ(part.tables[t].occurrence_offsets, linked.tables[t].occurrence_offsets);
      ASSERT_EQ(part.tables[t].occurrences.size(), linked.tables[t].occurrences.size());
      for (size_t o = 0; o < part.tables[t].occurrences.size(); ++o) {
        EXPECT_EQ(part.tables[t].occurrences[o].slot, linked.tables[t].occurrences[o].slot);
        EXPECT_EQ(part.tables[t].occurrences[o].entry, linked.tables[t].occurrences[o].entry);
        EXPECT_EQ(part.tables[t].occurrences[o].weight, linked.tables[t].occurrences[o].weight);
      }
    }
  }
}

TEST(Collective, SumsAreInTheOrderOfReplicasOnAll) {
  constexpr int kReplicas = 3;
  for (const int floats : {0, 1, 17, 1000}) {
    std::vector<std::vector<Real>> data(kReplicas, std::vector<Real>(floats));
    std::vector<Real> want(floats);
    for (int i = 0; i < floats; ++i) {
      for (int r = 0; r < kReplicas; ++r) data[r][i] = Real(1) / Real(3 + r * 7 + i);
      want[i] = data[0][i] + data[1][i] + data[2][i];
    }
    auto collective = NewCpuCollective(kReplicas);
    std::vector<std::thread> threads;
    for (int r = 0; r < kReplicas; ++r) {
      threads.emplace_back([&, r] {
        for (int turn = 0; turn < 20; ++turn) {
          std::vector<double> all(kReplicas);
          collective->Exchange(r, turn * 10 + r, all);
          EXPECT_EQ(all, (std::vector<double>{turn * 10.0, turn * 10.0 + 1, turn * 10.0 + 2}));
        }
        collective->AllReduce(r, floats, data[r].data());
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int r = 0; r < kReplicas; ++r) EXPECT_EQ(data[r], want);
  }
}

TEST(Collective, AReplicaThatCannotComeHoldsUpNone) {
  auto collective = NewCpuCollective(2);
  int returned = 0;
  std::thread waits([&] {
    std::vector<Real> data(8);
    for (; returned < 2; ++returned) collective->AllReduce(0, 8, data.data());
  });
  collective->Abort();
  waits.join();  // Else it waits for ever.
  EXPECT_EQ(returned, 2);
}

}  // namespace
}  // namespace starling
