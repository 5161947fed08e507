#include "scheduler/step_pipeline.h"

#include <cmath>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/big_memory.h"
#include "base/random.h"
#include "base/stages.h"
#include "base/status.h"
#include "base/sync_point.h"
#include "base/wrong.h"
#include "dense_net/replicas.h"
#include "scheduler/copy_stage.h"

namespace starling {
namespace {

// Adds the time since its construction to *total.
class Timer {
 public:
  explicit Timer(double* total) : total_(total), start_(absl::GetCurrentTimeNanos()) {}
  ~Timer() { *total_ += static_cast<double>(absl::GetCurrentTimeNanos() - start_) * 1e-9; }

 private:
  double* const total_;
  const int64_t start_;
};

// One step under way. Its memory is reused by later steps.
struct Step {
  int64_t number = 0;
  Batch batch;
  ReaderPosition next;
  std::vector<TableKeys> keys;
  std::vector<std::vector<uint32_t>> places;  // Of keys.
  std::vector<BigFloats> row_memory, grad_memory;
  std::vector<std::span<float>> rows, grads;  // (U, width) by table, over the memory.
  std::vector<std::span<const float>> pushed_grads;
  std::vector<float> dense, dense_grads, scores;
  absl::Status pulled, pushed;
  std::unique_ptr<absl::Notification> pull_done, push_done;
};

void ClipToNorm(double norm_max, std::span<float> grads) {
  double sum = 0;
  for (float g : grads) sum += static_cast<double>(g) * g;
  double norm = std::sqrt(sum);
  if (norm <= norm_max) return;
  float scale = static_cast<float>(norm_max / norm);
  for (float& g : grads) g *= scale;
}

// Takes batches from the reader and asks the tiers for their rows, some steps
// ahead of the pulls.
class Prefetcher {
 public:
  Prefetcher(BatchReader* reader, ParameterClient* client)
      : reader_(reader), client_(client), thread_([this] { Work(); }) {}
  ~Prefetcher() {
    {
      absl::MutexLock lock(&mu_);
      stop_ = true;
    }
    thread_.join();
  }

  absl::Status Next(Step* step) {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](Prefetcher* p) { return !p->ready_.empty(); }, this));
    if (!ready_.front().status.ok()) return ready_.front().status;
    NoteQueue(Stage::kPull, static_cast<int>(ready_.size()), static_cast<int>(kAhead));
    std::swap(step->batch, ready_.front().batch);
    step->next = ready_.front().next;
    spare_.push_back(std::move(ready_.front().batch));
    ready_.pop_front();
    return absl::OkStatus();
  }

 private:
  struct Item {
    absl::Status status;
    Batch batch;
    ReaderPosition next;
  };
  static constexpr size_t kAhead = 2;

  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stop_ || ready_.size() < kAhead;
  }

  void Work() {
    NameThread("prefetch");
    while (true) {
      Item item;
      {
        StageWait wait(Stage::kPrefetch);
        absl::MutexLock lock(&mu_);
        mu_.Await(absl::Condition(this, &Prefetcher::HasRoom));
        if (stop_) return;
        if (!spare_.empty()) {
          item.batch = std::move(spare_.back());
          spare_.pop_back();
        }
      }
      {
        StageWait wait(Stage::kPrefetch);
        item.status = reader_->Next(&item.batch);
      }
      bool last = !item.status.ok();
      if (!last) {
        item.next = reader_->position();
        StageSpan span(Stage::kPrefetch);
        client_->Prefetch(KeysOf(item.batch));
      }
      absl::MutexLock lock(&mu_);
      ready_.push_back(std::move(item));
      if (last) return;
    }
  }

  BatchReader* const reader_;
  ParameterClient* const client_;
  absl::Mutex mu_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<Item> ready_ ABSL_GUARDED_BY(mu_);
  std::vector<Batch> spare_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;  // Last: it uses the others.
};

}  // namespace

std::vector<TableKeys> KeysOf(const Batch& batch) {
  std::vector<TableKeys> keys;
  for (const TableIds& t : batch.tables) keys.push_back({t.ids, t.counts, t.event_times});
  return keys;
}

struct StepPipeline::Impl {
  const Network* network;
  ParameterClient* client;
  ThreadPool* pool;
  PipelineOptions options;
  StageTimes times;
  StepCounts counts;
  std::unique_ptr<Workspace> workspace;
  std::unique_ptr<Replicas> replicas;   // Null: the network's own device computes.
  std::unique_ptr<CopyStage> copies;    // Of this Run, to the replicas.
  const BatchReader* reader = nullptr;  // Of this Run.

  std::deque<std::unique_ptr<Step>> pulling;  // Pull sent, not computed; by number.
  std::deque<std::unique_ptr<Step>> pushing;  // Push sent, perhaps done; by number.
  std::vector<std::unique_ptr<Step>> spare;

  absl::Status Loop(Prefetcher* batches, int64_t first_step,
                    const std::function<double(int64_t)>& lr_scale,
                    const std::function<bool(const StepReport&)>& on_step,
                    const std::function<bool()>& at_rest);
  absl::Status Pull(Prefetcher* batches, int64_t number);
  absl::StatusOr<double> Compute(Step* step);
  absl::StatusOr<double> Train(Step* step);
  void Push(std::unique_ptr<Step> step, double lr_scale);
  bool PushesDone(int64_t before) const;
  absl::Status FinishPushes(int64_t before);
  absl::Status Drain();
};

StepPipeline::StepPipeline(const Network* network, ParameterClient* client, ThreadPool* pool,
                           const PipelineOptions& options)
    : impl_(new Impl{network, client, pool, options, {}, {}, network->NewWorkspace()}) {
  std::vector<const Device*> devices;
  for (const auto& device : options.devices) devices.push_back(device.get());
  if (!devices.empty()) {
    impl_->replicas = Replicas::Create(network, std::move(devices), pool->threads());
  }
}
StepPipeline::~StepPipeline() = default;
const StageTimes& StepPipeline::times() const { return impl_->times; }
const StepCounts& StepPipeline::counts() const { return impl_->counts; }

absl::Status StepPipeline::Run(BatchReader* reader, int64_t first_step,
                               const std::function<double(int64_t)>& lr_scale,
                               const std::function<bool(const StepReport&)>& on_step,
                               const std::function<bool()>& at_rest) {
  impl_->reader = reader;
  Prefetcher batches(reader, impl_->client);
  if (impl_->replicas != nullptr) {
    impl_->copies = std::make_unique<CopyStage>(impl_->replicas.get());
  }
  absl::Status status = impl_->Loop(&batches, first_step, lr_scale, on_step, at_rest);
  impl_->copies = nullptr;  // First: it reads the steps.
  absl::Status drained = impl_->Drain();
  return status.ok() ? drained : status;
}

absl::Status StepPipeline::Impl::Loop(Prefetcher* batches, int64_t first_step,
                                      const std::function<double(int64_t)>& lr_scale,
                                      const std::function<bool(const StepReport&)>& on_step,
                                      const std::function<bool()>& at_rest) {
  int64_t next_pull = first_step;
  bool ended = false, held = false;  // No further pull: the pass is over; on_step said stop.
  while (true) {
    while (!ended && !held && static_cast<int>(pulling.size()) <= options.staleness) {
      // A push that a pull waits for is no reason to leave a pulled step waiting too.
      if (!pulling.empty() && !PushesDone(next_pull - options.staleness)) break;
      absl::Status status = Pull(batches, next_pull);
      if (absl::IsOutOfRange(status)) {
        ended = true;
      } else {
        RETURN_IF_ERROR(status);
        ++next_pull;
      }
    }
    if (pulling.empty() || (held && STARLING_WRONG("not_at_rest"))) {
      if (!held || at_rest == nullptr) return absl::OkStatus();
      RETURN_IF_ERROR(FinishPushes(pulling.empty() ? next_pull : pulling.front()->number));
      STARLING_SYNC_POINT("pipeline:at_rest");
      if (!at_rest()) return absl::OkStatus();
      held = false;
      continue;
    }
    Step* step = pulling.front().get();
    {
      Timer timer(&times.pull);
      StageWait wait(Stage::kPull);
      step->pull_done->WaitForNotification();
    }
    RETURN_IF_ERROR(step->pulled);
    ASSIGN_OR_RETURN(double loss, Compute(step));
    std::unique_ptr<Step> owned = std::move(pulling.front());
    pulling.pop_front();
    Push(std::move(owned), lr_scale(step->number));
    if (!on_step({step->number, &step->batch, step->scores, loss, step->next})) held = true;
    STARLING_SYNC_POINT("pipeline:step");
  }
}

absl::Status StepPipeline::Impl::Pull(Prefetcher* batches, int64_t number) {
  std::unique_ptr<Step> step = spare.empty() ? std::make_unique<Step>() : std::move(spare.back());
  if (!spare.empty()) spare.pop_back();
  do {
    Timer timer(&times.wait_read);
    StageWait wait(Stage::kPull);
    RETURN_IF_ERROR(batches->Next(step.get()));
  } while (step->batch.rows == 0);
  RETURN_IF_ERROR(FinishPushes(number - options.staleness));

  Timer timer(&times.pull);
  StageSpan span(Stage::kPull, number);
  step->number = number;
  step->keys = KeysOf(step->batch);
  step->places.resize(step->keys.size());
  step->row_memory.resize(step->keys.size());
  step->grad_memory.resize(step->keys.size());
  step->rows.resize(step->keys.size());
  step->grads.resize(step->keys.size());
  for (size_t t = 0; t < step->keys.size(); ++t) {
    step->places[t].resize(step->keys[t].ids.size());
    step->keys[t].places = step->places[t];
    counts.ids_pulled += std::ssize(step->keys[t].ids);
    size_t floats = step->keys[t].ids.size() * network->spec().table_width(static_cast<int>(t));
    step->rows[t] = {step->row_memory[t].Reserve(floats), floats};
    step->grads[t] = {step->grad_memory[t].Reserve(floats), floats};
  }
  step->dense.resize(network->param_floats());
  step->dense_grads.resize(network->param_floats());
  step->scores.resize(step->batch.rows * network->outputs().size());
  step->pull_done = std::make_unique<absl::Notification>();
  Step* s = step.get();
  pulling.push_back(std::move(step));
  s->pushed_grads.assign(s->grads.begin(), s->grads.end());
  if (copies != nullptr) {
    copies->Add({number, &s->batch, s->rows, s->dense, s->pull_done.get(), &s->pulled});
  }
  client->Pull(PullMode::kCreate, s->keys, s->rows, s->dense, [s](absl::Status status) {
    s->pulled = std::move(status);
    s->pull_done->Notify();
  });
  return absl::OkStatus();
}

absl::StatusOr<double> StepPipeline::Impl::Train(Step* step) {
  const uint64_t seed = RandomBits(options.seed, step->number);
  if (copies == nullptr) {
    Timer timer(&times.compute);
    StageSpan span(Stage::kCompute, step->number);
    std::vector<std::span<const float>> rows(step->rows.begin(), step->rows.end());
    return network->Train(step->batch, rows, step->dense, seed, pool, workspace.get(), step->scores,
                          step->grads, step->dense_grads);
  }
  absl::StatusOr<Replicas::Buffer*> buffer;
  {
    Timer timer(&times.copy);
    buffer = copies->Take();
  }
  RETURN_IF_ERROR(buffer.status());
  Timer timer(&times.compute);
  StageSpan span(Stage::kCompute, step->number);
  absl::StatusOr<double> loss =
      replicas->Train(*buffer, seed, pool, step->scores, step->grads, step->dense_grads);
  copies->Release();
  return loss;
}

absl::StatusOr<double> StepPipeline::Impl::Compute(Step* step) {
  absl::StatusOr<double> loss = Train(step);
  if (!loss.ok()) {
    const BatchName& n = step->batch.name;
    return Annotate(loss.status(), absl::StrCat("step ", step->number, " (pass ", n.pass, ", ",
                                                reader->Place(n), ", batch ", n.batch, ")"));
  }
  if (options.clip_norm > 0) ClipToNorm(options.clip_norm, step->dense_grads);
  return loss;
}

void StepPipeline::Impl::Push(std::unique_ptr<Step> step, double lr_scale) {
  Timer timer(&times.push);
  StageSpan span(Stage::kPush, step->number);
  step->push_done = std::make_unique<absl::Notification>();
  Step* s = step.get();
  pushing.push_back(std::move(step));
  for (const TableKeys& keys : s->keys) counts.ids_pushed += std::ssize(keys.ids);
  client->Push(s->batch.name, static_cast<float>(lr_scale), s->keys, s->pushed_grads,
               s->dense_grads, [s](absl::Status status) {
                 s->pushed = std::move(status);
                 s->push_done->Notify();
               });
}

bool StepPipeline::Impl::PushesDone(int64_t before) const {
  for (const std::unique_ptr<Step>& step : pushing) {
    if (step->number < before && !step->push_done->HasBeenNotified()) return false;
  }
  return true;
}

// Waits for the pushes of all steps before `before`.
absl::Status StepPipeline::Impl::FinishPushes(int64_t before) {
  Timer timer(&times.push);
  StageWait wait(Stage::kPush);
  while (!pushing.empty() && pushing.front()->number < before) {
    pushing.front()->push_done->WaitForNotification();
    absl::Status status = pushing.front()->pushed;
    spare.push_back(std::move(pushing.front()));
    pushing.pop_front();
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

// Nothing may be under way when Run returns: the memory is ours. After an
// error, steps pulled but not computed are dropped; no position passed them.
absl::Status StepPipeline::Impl::Drain() {
  for (std::unique_ptr<Step>& step : pulling) {
    step->pull_done->WaitForNotification();
    spare.push_back(std::move(step));
  }
  pulling.clear();
  absl::Status first;
  while (!pushing.empty()) {
    absl::Status status = FinishPushes(pushing.front()->number + 1);
    if (first.ok()) first = status;
  }
  return first;
}

}  // namespace starling
