#include "scheduler/step_pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>
#include <tuple>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/random.h"
#include "dense_net/device.h"

namespace starling {
namespace {

GraphSpec LrSpec() {
  GraphSpec spec;
  spec.mutable_model()->mutable_lr();
  SlotSpec* slot = spec.add_slots();
  slot->set_name("f");
  slot->set_table(0);
  slot->set_slot(0);
  slot->set_linear_offset(0);
  spec.add_table_width(1);
  return spec;
}

// Batches of two rows and one id; every fifth has no rows at all.
class FakeReader : public BatchReader {
 public:
  explicit FakeReader(int batches, int fail_at = -1, int delay_us = 0)
      : batches_(batches), fail_at_(fail_at), delay_us_(delay_us) {}

  absl::Status Next(Batch* batch) override {
    if (delay_us_ > 0) absl::SleepFor(absl::Microseconds(RandomBelow(5, next_, delay_us_)));
    if (next_ == fail_at_) return absl::DataLossError("a bad page");
    if (next_ == batches_) return absl::OutOfRangeError("end");
    *batch = Batch();
    batch->name.batch = next_++;
    if (next_ % 5 == 0) return absl::OkStatus();
    batch->rows = batch->requests = 2;
    batch->labels = {0, 1};
    TableIds table;
    table.ids = {next_ % 3};
    table.counts = {2};
    table.event_times = {0};
    table.slots = {{.offsets = {0, 1, 2}, .index = {0, 0}}};
    table.occurrence_offsets = {0, 2};
    table.occurrences.codes = {0, 1};
    batch->tables = {table};
    return absl::OkStatus();
  }
  ReaderPosition position() const override { return {0, 0, next_}; }
  int64_t bad_rows() const override { return 0; }
  std::string Place(const BatchName&) const override { return "here"; }

 private:
  const int batches_, fail_at_, delay_us_;
  uint32_t next_ = 0;
};

void PullZeros(std::span<const std::span<float>> weights, std::span<float> dense) {
  for (const std::span<float>& rows : weights) std::fill(rows.begin(), rows.end(), 0.f);
  std::fill(dense.begin(), dense.end(), 0.f);
}

// A remote store that answers late, on another thread, and remembers what was
// done when each pull was sent.
class LateClient : public ParameterClient {
 public:
  LateClient() : thread_([this] { Work(); }) {}
  ~LateClient() override {
    Send(nullptr);
    thread_.join();
  }

  void Pull(PullMode, std::span<const TableKeys>, std::span<const std::span<float>> weights,
            std::span<float> dense, ClientDone done) override {
    PullZeros(weights, dense);
    pushes_done_at_pull.push_back(pushes_done_.load());
    bool fail = pulls_++ == fail_pull;
    Send([done, fail] { done(fail ? absl::UnavailableError("gone") : absl::OkStatus()); });
  }
  void Push(const BatchName& name, float, std::span<const TableKeys>,
            std::span<const std::span<const float>>, std::span<const float>,
            ClientDone done) override {
    pushed.push_back(name.batch);
    bool fail = static_cast<int>(pushed.size()) - 1 == fail_push;
    Send([this, done, fail] {
      ++pushes_done_;
      done(fail ? absl::UnavailableError("gone") : absl::OkStatus());
    });
  }
  void Prefetch(std::span<const TableKeys>) override { ++prefetches; }

  int pushes_done() const { return pushes_done_; }

  int fail_pull = -1, fail_push = -1;
  // Of an answer, at most; negative: at once, as by a local client.
  std::atomic<int> delay_us{800};
  std::vector<int> pushes_done_at_pull;  // By pull.
  std::vector<uint32_t> pushed;
  std::atomic<int> prefetches{0};

 private:
  void Send(std::function<void()> reply) {
    if (delay_us < 0 && reply != nullptr) return reply();
    absl::MutexLock lock(&mu_);
    queue_.push_back(std::move(reply));
  }
  void Work() {
    for (int i = 0;; ++i) {
      std::function<void()> reply;
      {
        absl::MutexLock lock(&mu_);
        mu_.Await(absl::Condition(
            +[](LateClient* c) { return !c->queue_.empty(); }, this));
        reply = std::move(queue_.front());
        queue_.pop_front();
      }
      if (reply == nullptr) return;
      absl::SleepFor(absl::Microseconds(RandomBelow(7, i, delay_us + 1)));
      reply();
    }
  }

  absl::Mutex mu_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mu_);
  std::atomic<int> pushes_done_{0};
  int pulls_ = 0;
  std::thread thread_;
};

// A CPU whose copies take a while, and one of which is the last.
class SlowDevice : public Device {
 public:
  SlowDevice(int fail_at, int delay_us)
      : Device({&gemm_, &CpuDevice().kernels(), &CpuDevice().fields(), &CpuDevice().sequences(),
                &CpuDevice().losses()}),
        finishes_(fail_at),
        delay_us_(delay_us) {}
  void* Allocate(int64_t bytes) const override { return CpuDevice().Allocate(bytes); }
  void Free(void* memory) const override { CpuDevice().Free(memory); }
  void Upload(int64_t bytes, const void* host, void* device) const override {
    CpuDevice().Upload(bytes, host, device);
  }
  void Download(int64_t bytes, const void* device, void* host) const override {
    CpuDevice().Download(bytes, device, host);
  }
  absl::Status Finish() const override {
    absl::SleepFor(absl::Microseconds(RandomBelow(9, calls_++, delay_us_ + 1)));
    return finishes_-- == 0 ? absl::InternalError("a device is lost") : absl::OkStatus();
  }

 private:
  static void Unused(int, int, int, const GemmA&, const GemmB&, GemmStart, const Real*, Real*) {}
  const GemmKernels gemm_ = {"slow", Unused, nullptr, nullptr};  // LR has no products.
  mutable std::atomic<int> finishes_, calls_{0};
  const int delay_us_;
};

std::vector<std::shared_ptr<const Device>> SlowDevices(int n, int fail_at, int delay_us) {
  std::vector<std::shared_ptr<const Device>> devices;
  for (int d = 0; d < n; ++d) {
    devices.push_back(std::make_shared<SlowDevice>(d == n - 1 ? fail_at : -1, delay_us));
  }
  return devices;
}

struct Outcome {
  absl::Status status;
  std::vector<int64_t> steps;
  ReaderPosition last;
};

Outcome RunPipeline(LateClient* client, BatchReader* reader, int staleness,
                    int stop_after = 1 << 30, const std::function<bool()>& at_rest = nullptr,
                    int devices = 0, int device_fails = -1) {
  auto network = *Network::Create(LrSpec(), {.tile = 1});
  ThreadPool pool(2);
  StepPipeline pipeline(network.get(), client, &pool,
                        {staleness, 0, 1, SlowDevices(devices, device_fails, 0)});
  Outcome outcome;
  outcome.status = pipeline.Run(
      reader, 100, [](int64_t) { return 1.0; },
      [&](const StepReport& r) {
        outcome.steps.push_back(r.step);
        outcome.last = r.next;
        return static_cast<int>(outcome.steps.size()) % stop_after != 0;
      },
      at_rest);
  return outcome;
}

TEST(StepPipelineTest, APullMissesAtMostTheLastPushesOfTheBound) {
  for (const auto& [staleness, devices] : {std::pair{0, 0}, {1, 0}, {3, 0}, {0, 2}, {3, 2}}) {
    LateClient client;
    FakeReader reader(100);
    Outcome o = RunPipeline(&client, &reader, staleness, 1 << 30, nullptr, devices);
    ASSERT_TRUE(o.status.ok()) << o.status;
    ASSERT_EQ(client.pushes_done_at_pull.size(), 80);
    bool missed_some = false;
    for (int n = 0; n < 80; ++n) {
      EXPECT_GE(client.pushes_done_at_pull[n], n - staleness);
      missed_some |= client.pushes_done_at_pull[n] < n;
    }
    EXPECT_EQ(missed_some, staleness > 0) << "the bound is used where it is allowed";
    EXPECT_EQ(client.prefetches, 100);
  }
}

TEST(StepPipelineTest, EveryBatchWithRowsIsOneStepInOrder) {
  LateClient client;
  FakeReader reader(23);
  Outcome o = RunPipeline(&client, &reader, 2);
  ASSERT_TRUE(o.status.ok());
  std::vector<uint32_t> expected;
  for (uint32_t b = 0; b < 23; ++b) {
    if ((b + 1) % 5 != 0) expected.push_back(b);
  }
  EXPECT_EQ(client.pushed, expected);
  ASSERT_EQ(o.steps.size(), expected.size());
  for (size_t i = 0; i < o.steps.size(); ++i) EXPECT_EQ(o.steps[i], 100 + i);
}

TEST(StepPipelineTest, StoppingFinishesWhatWasPulledAndThePositionIsExact) {
  for (int staleness : {0, 2}) {
    LateClient client;
    FakeReader reader(100);
    Outcome o = RunPipeline(&client, &reader, staleness, 7);
    ASSERT_TRUE(o.status.ok());
    EXPECT_GE(o.steps.size(), 7);
    EXPECT_LE(o.steps.size(), 7 + staleness);
    EXPECT_EQ(client.pushed.size(), o.steps.size());
    EXPECT_EQ(o.last.batch, client.pushed.back() + 1);
  }
}

TEST(StepPipelineTest, AtRestNothingIsUnderWayAndNothingIsReadTwice) {
  for (const auto& [staleness, delay_us, devices] :
       {std::tuple{0, 800, 0}, {2, 800, 0}, {2, -1, 0}, {2, 800, 2}, {2, -1, 2}}) {
    LateClient client;
    client.delay_us = delay_us;
    FakeReader reader(100);
    int rests = 0;
    const std::function<bool()> at_rest = [&] {
      EXPECT_EQ(client.pushes_done(), static_cast<int>(client.pushes_done_at_pull.size()));
      return ++rests < 4;
    };
    Outcome o = RunPipeline(&client, &reader, staleness, 7, at_rest, devices);
    ASSERT_TRUE(o.status.ok());
    EXPECT_EQ(rests, 4);
    std::vector<uint32_t> expected;
    for (uint32_t b = 0; expected.size() < client.pushed.size(); ++b) {
      if ((b + 1) % 5 != 0) expected.push_back(b);
    }
    EXPECT_EQ(client.pushed, expected);
    EXPECT_EQ(o.last.batch, client.pushed.back() + 1);
  }
}

// Answers a push when the next one comes.
class OneBehindClient : public ParameterClient {
 public:
  explicit OneBehindClient(int pushes) : pushes_(pushes) {}
  void Pull(PullMode, std::span<const TableKeys>, std::span<const std::span<float>> weights,
            std::span<float> dense, ClientDone done) override {
    PullZeros(weights, dense);
    done(absl::OkStatus());
  }
  void Push(const BatchName&, float, std::span<const TableKeys>,
            std::span<const std::span<const float>>, std::span<const float>,
            ClientDone done) override {
    if (held_ != nullptr) held_(absl::OkStatus());
    held_ = std::move(done);
    if (--pushes_ == 0) held_(absl::OkStatus());
  }
  void Prefetch(std::span<const TableKeys>) override {}

 private:
  int pushes_;
  ClientDone held_;
};

TEST(StepPipelineTest, APushUnderWayHoldsUpNoStepThatIsPulled) {
  auto network = *Network::Create(LrSpec(), {});
  ThreadPool pool(1);
  OneBehindClient client(32);
  StepPipeline pipeline(network.get(), &client, &pool, {.staleness = 1});
  FakeReader reader(40);
  int steps = 0;
  EXPECT_TRUE(pipeline
                  .Run(
                      &reader, 0, [](int64_t) { return 1.0; },
                      [&](const StepReport&) { return ++steps > 0; })
                  .ok());
  EXPECT_EQ(steps, 32);
}

// Whatever is slow, fails or stops: the pushes are those of the reported steps, in
// order, none is under way at the end, and every pull kept to the bound.
TEST(StepPipelineTest, RandomDelaysFailuresAndStops) {
  for (uint64_t seed = 1; seed <= 90; ++seed) {
    SCOPED_TRACE(seed);
    const auto draw = [&](uint64_t what, uint64_t n) {
      return static_cast<int>(RandomBelow(seed, what, n));
    };
    const int staleness = draw(0, 4), batches = 20 + draw(1, 60);
    // 0: nothing; 1: reading; 2: a pull; 3: a push; 4: a device, while it copies or computes.
    const int failing = draw(2, 5), devices = failing == 4 ? 2 : draw(8, 4);
    const int fail_at = draw(3, batches / 2);
    LateClient client;
    client.delay_us = draw(4, 2) == 0 ? 0 : 300;
    if (failing == 2) client.fail_pull = fail_at;
    if (failing == 3) client.fail_push = fail_at;
    FakeReader reader(batches, failing == 1 ? fail_at : -1, draw(5, 2) == 0 ? 0 : 300);
    const int slow_step = draw(6, 2) == 0 ? 0 : 200, stop_after = 1 + draw(7, 100);
    std::vector<int64_t> steps;
    auto network = *Network::Create(LrSpec(), {.tile = 1});
    ThreadPool pool(2);
    const int slow_copy = draw(9, 2) == 0 ? 0 : 200;
    StepPipeline pipeline(
        network.get(), &client, &pool,
        {staleness, 0, 1, SlowDevices(devices, failing == 4 ? fail_at : -1, slow_copy)});
    const absl::Status status = pipeline.Run(
        &reader, 0, [](int64_t) { return 1.0; },
        [&](const StepReport& r) {
          absl::SleepFor(absl::Microseconds(RandomBelow(seed, 100 + r.step, slow_step + 1)));
          steps.push_back(r.batch->name.batch);
          return static_cast<int>(steps.size()) < stop_after;
        });
    EXPECT_EQ(std::vector<int64_t>(client.pushed.begin(), client.pushed.end()), steps);
    EXPECT_EQ(client.pushes_done(), std::ssize(client.pushed));
    for (size_t n = 0; n < client.pushes_done_at_pull.size(); ++n) {
      EXPECT_GE(client.pushes_done_at_pull[n], static_cast<int>(n) - staleness);
    }
    int64_t with_rows = 0;
    for (int64_t b = 0; with_rows < std::ssize(steps); ++b) {
      if ((b + 1) % 5 == 0) continue;
      EXPECT_EQ(steps[with_rows++], b);
    }
    const bool all = std::ssize(steps) == batches - batches / 5;
    EXPECT_TRUE(!status.ok() || all || std::ssize(steps) >= stop_after) << status;
    EXPECT_TRUE(failing != 0 || status.ok()) << status;
    EXPECT_TRUE(status.ok() || absl::IsUnavailable(status) || absl::IsDataLoss(status) ||
                (failing == 4 && absl::IsInternal(status)))
        << status;
  }
}

TEST(StepPipelineTest, ErrorsOfEveryStageSurfaceAndNothingStaysUnderWay) {
  {
    LateClient client;
    FakeReader reader(100, 30);
    EXPECT_EQ(RunPipeline(&client, &reader, 2).status.code(), absl::StatusCode::kDataLoss);
  }
  {
    LateClient client;
    client.fail_pull = 9;
    FakeReader reader(100);
    Outcome o = RunPipeline(&client, &reader, 1);
    EXPECT_EQ(o.status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(o.steps.size(), 9);
  }
  {
    LateClient client;
    client.fail_push = 4;
    FakeReader reader(100);
    EXPECT_EQ(RunPipeline(&client, &reader, 0).status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(client.pushed.size(), 5);
  }
  for (const int fails :
       {12, 13, 14}) {  // Of a device's three a step: batch, rows, the step itself.
    LateClient client;
    FakeReader reader(100);
    Outcome o = RunPipeline(&client, &reader, 2, 1 << 30, nullptr, 2, fails);
    EXPECT_EQ(o.status.code(), absl::StatusCode::kInternal);
    EXPECT_GE(o.steps.size(), 2);
    EXPECT_LE(o.steps.size(), 5);
    EXPECT_EQ(client.pushed.size(), o.steps.size());
  }
}

}  // namespace
}  // namespace starling
