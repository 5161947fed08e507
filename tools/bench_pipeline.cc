// bench pipeline: the time of a step whose stages take equal times by construction,
// beside the time of one stage: what the pipeline itself adds, and whether its
// stages overlap. Stages wait instead of working, so that they need no cores.
#include <deque>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "scheduler/step_pipeline.h"
#include "tools/bench.h"

namespace starling {
namespace {

// One row and one id a batch, each after a stage's time.
class SlowReader : public BatchReader {
 public:
  SlowReader(int batches, absl::Duration stage) : batches_(batches), stage_(stage) {}

  absl::Status Next(Batch* batch) override {
    if (next_ == static_cast<uint32_t>(batches_)) return absl::OutOfRangeError("end");
    absl::SleepFor(stage_);
    *batch = Batch();
    batch->name.batch = next_++;
    batch->rows = batch->requests = 1;
    batch->labels = {1};
    TableIds table;
    table.ids = {7};
    table.counts = {1};
    table.event_times = {0};
    table.slots = {{.offsets = {0, 1}, .index = {0}}};
    table.occurrence_offsets = {0, 1};
    table.occurrences.codes = {0};
    batch->tables = {table};
    return absl::OkStatus();
  }
  ReaderPosition position() const override { return {0, 0, next_}; }
  int64_t bad_rows() const override { return 0; }
  std::string Place(const BatchName&) const override { return "bench"; }

 private:
  const int batches_;
  const absl::Duration stage_;
  uint32_t next_ = 0;
};

// Answers one call after the other, each after a stage's time.
class SlowServer {
 public:
  explicit SlowServer(absl::Duration stage) : stage_(stage), thread_([this] { Work(); }) {}
  ~SlowServer() {
    Send(nullptr);
    thread_.join();
  }
  void Send(ClientDone done) {
    absl::MutexLock lock(&mu_);
    calls_.push_back(std::move(done));
  }

 private:
  void Work() {
    while (true) {
      ClientDone done;
      {
        absl::MutexLock lock(&mu_);
        mu_.Await(absl::Condition(
            +[](SlowServer* s) { return !s->calls_.empty(); }, this));
        done = std::move(calls_.front());
        calls_.pop_front();
      }
      if (done == nullptr) return;
      absl::SleepFor(stage_);
      done(absl::OkStatus());
    }
  }

  const absl::Duration stage_;
  absl::Mutex mu_;
  std::deque<ClientDone> calls_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

class SlowClient : public ParameterClient {
 public:
  explicit SlowClient(absl::Duration stage) : pulls_(stage), pushes_(stage) {}
  void Pull(PullMode, std::span<const TableKeys>, std::span<const std::span<float>> weights,
            std::span<float> dense, ClientDone done) override {
    for (const std::span<float>& rows : weights) std::fill(rows.begin(), rows.end(), 0.f);
    std::fill(dense.begin(), dense.end(), 0.f);
    pulls_.Send(std::move(done));
  }
  void Push(const BatchName&, float, std::span<const TableKeys>,
            std::span<const std::span<const float>>, std::span<const float>,
            ClientDone done) override {
    pushes_.Send(std::move(done));
  }
  void Prefetch(std::span<const TableKeys>) override {}

 private:
  SlowServer pulls_, pushes_;
};

absl::StatusOr<double> SecondsAStep(int staleness, int steps, absl::Duration stage) {
  GraphSpec spec;
  spec.mutable_model()->mutable_lr();
  SlotSpec* slot = spec.add_slots();
  slot->set_name("f");
  slot->set_linear_offset(0);
  spec.add_table_width(1);
  ASSIGN_OR_RETURN(std::unique_ptr<Network> network, Network::Create(spec, {}));
  SlowReader reader(steps, stage);
  SlowClient client(stage);
  ThreadPool pool(1);
  StepPipeline pipeline(network.get(), &client, &pool, {.staleness = staleness});
  const absl::Time start = absl::Now();
  RETURN_IF_ERROR(pipeline.Run(
      &reader, 0,
      [&](int64_t) {
        absl::SleepFor(stage);  // In compute's place: on the step's own thread, before the push.
        return 1.0;
      },
      [](const StepReport&) { return true; }));
  return absl::ToDoubleSeconds(absl::Now() - start) / steps;
}

// What a stage's wait takes here: a sleep is never shorter than asked for.
double StageSeconds(int steps, absl::Duration stage) {
  const absl::Time start = absl::Now();
  for (int i = 0; i < steps; ++i) absl::SleepFor(stage);
  return absl::ToDoubleSeconds(absl::Now() - start) / steps;
}

}  // namespace

absl::Status BenchPipeline(bool quick) {
  const int steps = quick ? 40 : 300, alternations = quick ? 2 : 7;
  const absl::Duration stage = absl::Milliseconds(5);
  for (int staleness : {0, 1, 2, 3}) {
    BenchResult result{
        "pipeline", absl::StrCat("read, pull, compute, push of 5 ms each, staleness ", staleness),
        "s a step", "one stage",
        {},         {},
        0};
    for (int i = 0; i < alternations; ++i) {
      result.reference_values.push_back(StageSeconds(steps / 4, stage));
      ASSIGN_OR_RETURN(double seconds, SecondsAStep(staleness, steps, stage));
      result.values.push_back(seconds);
    }
    Report(result);
  }
  return absl::OkStatus();
}

}  // namespace starling
