#include "scheduler/worker_barrier.h"

#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "base/status.h"

namespace starling {
namespace {

// A worker that counts steps, and comes to rest when it is told.
struct TestWorker {
  TestWorker(const std::string& address, int worker, int64_t end)
      : client(*BarrierClient::Join(address, worker)), thread([this, end] {
          WorkerState state = client->from();
          while (state.steps() < end) {
            moving = true;
            state.set_steps(state.steps() + 1);
            client->Report(state);
            absl::SleepFor(absl::Microseconds(200));
            moving = false;
            if (client->hold()) status.Update(client->Rest());
            if (!status.ok()) return;
          }
          status.Update(client->Done());
        }) {}
  ~TestWorker() {
    if (thread.joinable()) thread.join();
  }
  std::unique_ptr<BarrierClient> client;
  std::atomic<bool> moving{false};
  absl::Status status;
  std::thread thread;
};

std::vector<WorkerState> From(std::vector<int64_t> steps) {
  std::vector<WorkerState> states(steps.size());
  for (size_t w = 0; w < steps.size(); ++w) states[w].set_steps(steps[w]);
  return states;
}

std::vector<int64_t> StepsOf(const WorkerBarrier& barrier) {
  std::vector<int64_t> steps;
  for (const WorkerState& state : barrier.states()) steps.push_back(state.steps());
  return steps;
}

void AwaitRest(const WorkerBarrier& barrier) {
  while (!barrier.AtRest()) absl::SleepFor(absl::Milliseconds(1));
}

TEST(WorkerBarrierTest, AllStandStillAtWhatTheyHaveReportedUntilReleased) {
  auto barrier = *WorkerBarrier::Start(From({0, 100, 200}));
  constexpr int64_t kEnd = 3000;
  std::vector<std::unique_ptr<TestWorker>> workers;
  for (int w = 0; w < 3; ++w)
    workers.push_back(std::make_unique<TestWorker>(barrier->address(), w, kEnd));
  std::vector<int64_t> last(3);
  for (int cut = 0; cut < 10; ++cut) {
    EXPECT_FALSE(barrier->AtRest()) << "nobody rests without being told";
    barrier->Hold();
    AwaitRest(*barrier);
    const std::vector<int64_t> then = StepsOf(*barrier);
    absl::SleepFor(absl::Milliseconds(5));
    for (int w = 0; w < 3; ++w) {
      EXPECT_FALSE(workers[w]->moving) << "worker " << w << ", cut " << cut;
      EXPECT_GE(then[w], last[w]);
    }
    EXPECT_EQ(StepsOf(*barrier), then);
    last = then;
    barrier->Release();
  }
  for (auto& worker : workers) {
    worker->thread.join();
    EXPECT_TRUE(worker->status.ok()) << worker->status;
  }
  // Those who have come to their end hold up nobody.
  barrier->Hold();
  EXPECT_TRUE(barrier->AtRest());
  EXPECT_EQ(StepsOf(*barrier), (std::vector<int64_t>{kEnd, kEnd, kEnd}));
}

TEST(WorkerBarrierTest, AWordOfRestForAnEarlierCutIsNotTakenForALaterOnes) {
  auto barrier = *WorkerBarrier::Start(From({0}));
  auto channel = ConnectRpc(barrier->address());
  auto report = [&](int64_t at_rest) {
    ReportRequest request;
    request.set_worker(0);
    request.set_at_rest(at_rest);
    auto message = channel->CallAndWait("starling.Job", "Report", {request.SerializeAsString(), ""},
                                        absl::Seconds(10));
    ReportReply reply;
    EXPECT_TRUE(message.ok() && reply.ParseFromString(message->body));
    return reply.hold();
  };
  barrier->Hold();
  const int64_t first = report(0);
  EXPECT_GT(first, 0);
  EXPECT_EQ(report(first), first);
  EXPECT_TRUE(barrier->AtRest());
  barrier->Release();
  barrier->Hold();
  EXPECT_FALSE(barrier->AtRest());
  const int64_t second = report(first);  // It came late.
  EXPECT_NE(second, first);
  EXPECT_FALSE(barrier->AtRest());
  report(second);
  EXPECT_TRUE(barrier->AtRest());
}

TEST(WorkerBarrierTest, AWorkerWhoseLauncherIsGoneIsHeldAndToldSo) {
  auto barrier = *WorkerBarrier::Start(From({0}));
  auto client = *BarrierClient::Join(barrier->address(), 0);
  barrier = nullptr;
  while (!client->hold()) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(absl::IsUnavailable(client->Rest())) << client->Rest();
  EXPECT_FALSE(client->Done().ok());
}

TEST(WorkerBarrierTest, AWorkerWithoutALauncherIsHeldByNobody) {
  auto client = *BarrierClient::Join("", 0);
  EXPECT_FALSE(client->hold());
  EXPECT_TRUE(client->Rest().ok());
  EXPECT_TRUE(client->Done().ok());
}

}  // namespace
}  // namespace starling
