#include "scheduler/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/wrong.h"
#include "dense_net/device.h"
#include "scheduler/checkpoint_keeper.h"
#include "scheduler/run_log.h"
#include "scheduler/run_record.h"
#include "scheduler/schedule.h"

namespace starling {
namespace {

double Seconds() { return static_cast<double>(absl::GetCurrentTimeNanos()) * 1e-9; }

}  // namespace

std::string CheckpointRoot(const Job& job) {
  const TrainOptions& t = job.train();
  return t.checkpoint().has_dir() ? t.checkpoint().dir() : JoinPath(t.dir(), "ckpt");
}

std::string ScratchDir(const Job& job) {
  return JoinPath(job.train().dir(), absl::StrCat("scratch.", getpid()));
}

NetworkOptions NetworkOptionsOf(const Job& job) {
  return {job.train().tile(), job.train().lanes()};
}

absl::StatusOr<PipelineOptions> PipelineOptionsOf(const TrainOptions& options) {
  PipelineOptions pipe{options.staleness(), options.clip_norm(), options.seed(), {}};
  for (const std::string& name : options.devices()) {
    ASSIGN_OR_RETURN(std::shared_ptr<const Device> device, OpenDevice(name));
    if (options.devices_size() > 1 || !device->is_host()) pipe.devices.push_back(device);
  }
  return pipe;
}

CheckpointInfo InfoOf(const Plan& plan, int shards) {
  CheckpointInfo info;
  ModelSpec spec = SpecOf(plan);
  info.set_job(plan.job.name());
  info.set_seed(plan.job.train().seed());
  Reading* reading = info.mutable_reading();
  reading->set_batch(plan.job.data().batch());
  reading->set_shuffle(plan.job.data().shuffle());
  reading->set_seed(plan.job.train().seed());
  if (plan.job.data().has_sample()) *reading->mutable_sample() = plan.job.data().sample();
  info.set_feature_hash(FeatureHash(plan.features));
  *info.mutable_features() = spec.features;
  *info.mutable_tables() = spec.tables;
  *info.mutable_graph() = spec.graph;
  *info.mutable_dense_optimizer() = spec.dense_optimizer;
  info.set_shards(shards);
  return info;
}

struct Trainer::Impl {
  const Plan plan;
  const SampleSource* train;
  const SampleSource* eval;
  const std::atomic<bool>* stop;
  ThreadPool pool;

  std::unique_ptr<LocalModel> model;
  std::unique_ptr<CheckpointKeeper> checkpoints;  // Of the model's store.
  std::unique_ptr<StepPipeline> pipeline;
  std::unique_ptr<RunLog> log;
  TrainerState state;
  ReaderPosition position;
  TrainSummary summary;
  bool at_rest = true;                   // No step is under way, or has ended halfway.
  absl::Status log_status, save_status;  // Not ok: the run ends.
  StageUses before = ReadStages();       // Without what evaluation read.
  const int read_threads;

  const TrainOptions& options() const { return plan.job.train(); }

  Impl(const Plan& p, const SampleSource* t, const SampleSource* e, const std::atomic<bool>* s)
      : plan(p),
        train(t),
        eval(e),
        stop(s),
        pool(p.job.train().threads()),
        read_threads(ReadThreads(p.job.train())) {}

  absl::Status NewModel();
  absl::Status Start(bool resume, const std::set<std::string>& allow);
  absl::Status TakeUp(const Checkpoint& checkpoint, const std::set<std::string>& allow);
  absl::Status RunPasses();
  absl::Status RunPass();
  absl::Status SaveAndLeave(const absl::Status& status);
  absl::Status RunUntilCut(bool* pass_ended);
  bool OnStep(const StepReport& report);
  bool AtRest(const BatchReader& reader);
  absl::Status AfterPass(bool* stop_early);
  CheckpointInfo InfoNow() const;
  int64_t ProtectedStep() const;
  absl::Status Cut();
  absl::Status Save();
  absl::Status Finish();
  absl::StatusOr<std::vector<EvalMetrics>> EvaluateNow();
};

Trainer::Trainer(const Plan& plan, const SampleSource* train, const SampleSource* eval,
                 const std::atomic<bool>* stop)
    : impl_(std::make_unique<Impl>(plan, train, eval, stop)) {}
Trainer::~Trainer() = default;
const TrainSummary& Trainer::summary() const { return impl_->summary; }
LocalModel& Trainer::model() { return *impl_->model; }

absl::Status Trainer::Run(bool resume, const std::set<std::string>& allow) {
  RETURN_IF_ERROR(impl_->Start(resume, allow));
  absl::Status status = impl_->RunPasses();
  impl_->summary.state = impl_->state;
  impl_->summary.checkpoint_seconds += impl_->checkpoints->seconds();
  if (!impl_->checkpoints->newest().empty())
    impl_->summary.checkpoint = impl_->checkpoints->newest();
  impl_->summary.train_loss = impl_->log->train_loss();
  impl_->summary.train_auc = impl_->log->train_auc();
  if (impl_->pipeline != nullptr) {
    impl_->summary.stages = impl_->pipeline->times();
    impl_->summary.counts = impl_->pipeline->counts();
  }
  impl_->summary.uses = UseBetween(impl_->before, ReadStages());
  RunRecord run = RecordOf(impl_->plan, *impl_->train, impl_->summary, impl_->pool.threads());
  run.set_status(status.ok() ? "ok" : std::string(status.message()));
  if (impl_->model != nullptr) AddTables(impl_->plan, impl_->model->store(), &run);
  absl::Status recorded = WriteRunRecord(run, impl_->options().dir());
  if (!recorded.ok()) impl_->log->Say(recorded.message());  // Training itself lost nothing.
  return status;
}

absl::Status Trainer::Impl::NewModel() {
  pipeline = nullptr;
  if (checkpoints != nullptr) summary.checkpoint_seconds += checkpoints->seconds();
  checkpoints = nullptr;
  model = nullptr;  // First: the scratch directory is the same.
  ASSIGN_OR_RETURN(model, LocalModel::Create(SpecOf(plan), NetworkOptionsOf(plan.job),
                                             ScratchDir(plan.job), &pool));
  checkpoints = std::make_unique<CheckpointKeeper>(
      options().checkpoint(), CheckpointRoot(plan.job), &model->store(), stop,
      [this](absl::string_view line) { log->Say(line); });
  return absl::OkStatus();
}

absl::Status Trainer::Impl::Start(bool resume, const std::set<std::string>& allow) {
  std::string root = CheckpointRoot(plan.job);
  auto take = [&](const Checkpoint& checkpoint) -> absl::Status {
    RETURN_IF_ERROR(NewModel());  // Of one that turned out to be damaged nothing is left.
    return TakeUp(checkpoint, allow);
  };
  ASSIGN_OR_RETURN(const std::optional<Checkpoint> latest, CheckpointToResume(root, resume, take));
  if (!latest.has_value()) RETURN_IF_ERROR(NewModel());
  ASSIGN_OR_RETURN(log, RunLog::Create(options().dir(), train->rows() * options().epochs(),
                                       model->network().outputs()[0]));
  if (latest.has_value()) {
    log->Say(absl::StrCat("resumed from ", latest->dir, " at step ", state.step()));
  } else if (resume) {
    log->Say(absl::StrCat(root, ": no checkpoint yet, starting from the beginning"));
  }
  log->Say(ThreadsText(options(), pool.threads()));
  ASSIGN_OR_RETURN(const PipelineOptions pipe, PipelineOptionsOf(options()));
  pipeline = std::make_unique<StepPipeline>(&model->network(), &model->client(), &pool, pipe);
  return absl::OkStatus();
}

absl::Status Trainer::Impl::TakeUp(const Checkpoint& checkpoint,
                                   const std::set<std::string>& allow) {
  RETURN_IF_ERROR(CheckFits(checkpoint, model->spec(), allow));
  if (checkpoint.info.workers_size() > 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        checkpoint.dir, ": was written by several workers in the middle of a pass; go on with ",
        "`starling launch --resume --worker_count ", checkpoint.info.workers_size(), "`"));
  }
  const Position& at = checkpoint.info.position();
  const absl::Status same_batches = CheckReading(checkpoint, InfoOf(plan, 1).reading());
  const bool same_files = at.source() == train->fingerprint();
  if (!allow.contains("data")) {
    RETURN_IF_ERROR(same_batches);
    if (!same_files) {
      return absl::FailedPreconditionError(absl::StrCat(
          checkpoint.dir, ": its position is in another set of files than data.train names now; ",
          "--allow data keeps the model and reads these from the beginning"));
    }
  }
  RETURN_IF_ERROR(model->Load(checkpoint));
  state = checkpoint.info.state();
  if (same_files && same_batches.ok()) {
    position = {at.pass(), at.ordinal(), at.batch()};
  } else {
    state.set_finished(false);
    state.set_data_step(state.step());
  }
  checkpoints->TakenUp(state.step());
  summary.checkpoint = checkpoint.dir;
  return absl::OkStatus();
}

absl::Status Trainer::Impl::RunPasses() {
  bool stop_early = state.finished() && options().has_early_stop();
  if (!stop_early && static_cast<int>(position.pass) < options().epochs())
    state.set_finished(false);
  while (!stop_early && static_cast<int>(position.pass) < options().epochs()) {
    absl::Status status = RunPass();
    if (status.ok()) {
      ReaderPosition end_of_pass = position;
      position = {position.pass + 1, 0, 0};
      status = AfterPass(&stop_early);
      if (absl::IsCancelled(status)) position = end_of_pass;  // A resume evaluates first.
    }
    if (!status.ok()) return SaveAndLeave(status);
  }
  return Finish();
}

// At rest, this instant is worth keeping, whatever ended the run. If a step failed, what others
// have counted or applied in part is in the rows, and a checkpoint of them would count it again:
// the last complete one stays.
absl::Status Trainer::Impl::SaveAndLeave(const absl::Status& status) {
  absl::Status saved = checkpoints->Await();
  if ((at_rest || STARLING_WRONG("failed_step_saved")) && state.step() != checkpoints->saved_step())
    saved = Save();
  if (!saved.ok()) log->Say(saved.message());
  const std::string last =
      checkpoints->newest().empty() ? summary.checkpoint : checkpoints->newest();
  if (!absl::IsCancelled(status)) {
    if (!last.empty()) log->Say(absl::StrCat("--resume goes on from ", last));
    return status;
  }
  if (!saved.ok()) return saved;
  return absl::CancelledError(
      absl::StrCat("stopped at step ", state.step(), ", saved ", last, "; go on with --resume"));
}

absl::Status Trainer::Impl::RunPass() {
  while (true) {
    bool pass_ended = false;
    double start = Seconds();
    absl::Status status = RunUntilCut(&pass_ended);
    summary.train_seconds += Seconds() - start;
    RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(log_status);
    if (pass_ended) return absl::OkStatus();
    if (stop->load()) return absl::CancelledError("stopped");
    RETURN_IF_ERROR(save_status);
    RETURN_IF_ERROR(Cut());
  }
}

// Trains from `position` until the pass ends, or something is to be done for
// which the reader must end.
absl::Status Trainer::Impl::RunUntilCut(bool* pass_ended) {
  const DataOptions& data = plan.job.data();
  BatchReaderOptions reading;
  // Names of batches belong to the data: those of other files, or of the same read anew after
  // others, are other names.
  reading.job = HashBytes(plan.job.name(), train->fingerprint());
  if (state.data_step() > 0) reading.job = HashBytes(absl::StrCat(state.data_step()), reading.job);
  reading.batch_rows = data.batch();
  reading.threads = read_threads;
  reading.pool = &pool;
  reading.shuffle = data.shuffle();
  reading.seed = options().seed();
  reading.sample = data.sample();
  reading.bad_rows_max = data.bad_rows_max();
  std::string quarantine =
      data.has_quarantine() ? data.quarantine() : JoinPath(options().dir(), "quarantine");
  reading.quarantine =
      JoinPath(quarantine, absl::StrFormat("from-step-%012d.parquet", state.step()));
  ASSIGN_OR_RETURN(std::unique_ptr<BatchReader> reader,
                   BatchReader::Create(train, &model->compiler(), reading, position));
  bool cut = false;
  at_rest = false;
  absl::Status status = pipeline->Run(
      reader.get(), state.step(),
      [&](int64_t step) { return LearningRateScale(options().schedule(), step, state.lr_scale()); },
      [&](const StepReport& report) {
        cut |= !OnStep(report);
        return !cut;
      },
      [&] { return !(cut = !AtRest(*reader)); });
  at_rest = status.ok();
  *pass_ended = status.ok() && !cut;
  summary.bad_rows += reader->bad_rows();
  if (*pass_ended && state.samples() == 0) {
    return absl::FailedPreconditionError(
        "no row of data.train was left to train on: all are bad, or passed over by data.where or "
        "data.sample");
  }
  return status;
}

// False: something is to be done when the pipeline is at rest.
bool Trainer::Impl::OnStep(const StepReport& report) {
  state.set_step(report.step + 1);
  state.set_samples(state.samples() + report.batch->rows);
  state.set_event_time(std::max(state.event_time(), report.batch->event_time_max));
  position = report.next;
  if (++summary.steps == 1) summary.first_step_at = Seconds();
  summary.samples += report.batch->rows;
  summary.requests += report.batch->requests;
  summary.request_work += report.batch->request_work;
  summary.row_work += report.batch->row_work;
  double scale = LearningRateScale(options().schedule(), report.step, state.lr_scale());
  log_status =
      log->Step(state.step(), state.samples(), report.loss, scale, report.scores, *report.batch);
  return log_status.ok() && !stop->load(std::memory_order_relaxed) &&
         !checkpoints->Due(state.step());
}

// Nothing is under way. True: go on with the same reader.
bool Trainer::Impl::AtRest(const BatchReader& reader) {
  // Bad rows stand in a file that is complete only when the reader ends; a cut must not pass them.
  if (!log_status.ok() || stop->load() || reader.bad_rows() > 0) return false;
  save_status = Cut();
  return save_status.ok();
}

absl::StatusOr<std::vector<EvalMetrics>> Trainer::Impl::EvaluateNow() {
  double start = Seconds();
  const StageUses at_start = ReadStages();
  StageSpan span(Stage::kEval);
  std::function<bool()> stopped = [this] { return stop->load(); };
  ScoreOptions score{plan.job.data().batch(), plan.job.data().bad_rows_max(), &stopped};
  absl::StatusOr<std::vector<EvalMetrics>> metrics = Evaluate(model.get(), *eval, score, &pool);
  summary.eval_seconds += Seconds() - start;
  const StageUses of_eval = UseBetween(at_start, ReadStages());
  for (int s = 0; s < kStages; ++s) {
    if (static_cast<Stage>(s) != Stage::kEval) before[s] += of_eval[s];
  }
  return metrics;
}

absl::Status Trainer::Impl::AfterPass(bool* stop_early) {
  bool last = static_cast<int>(position.pass) >= options().epochs();
  if (eval == nullptr || (!last && position.pass % std::max(1, options().eval_every()) != 0)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(summary.eval, EvaluateNow());
  summary.evaluated = true;
  RETURN_IF_ERROR(log->Eval(state.step(), summary.eval));
  const EarlyStopOptions& early = options().early_stop();
  double judged = Judged(early, summary.eval);
  bool better = !state.has_best_metric() || judged > state.best_metric() + early.min_delta();
  if (better) {
    state.set_best_metric(judged);
    state.set_best_step(state.step());
    state.set_bad_evals(0);
    if (!options().has_early_stop()) return absl::OkStatus();
    return Save();
  }
  state.set_bad_evals(state.bad_evals() + 1);
  state.set_lr_scale(CutPlateau(options().schedule(), state.lr_scale()));
  *stop_early = options().has_early_stop() && state.bad_evals() >= early.patience();
  if (*stop_early)
    log->Say(absl::StrCat("no better for ", state.bad_evals(), " evaluations: stopping"));
  return absl::OkStatus();
}

// ---- Checkpoints ----

CheckpointInfo Trainer::Impl::InfoNow() const {
  CheckpointInfo info = InfoOf(plan, 1);
  *info.mutable_state() = state;
  info.mutable_position()->set_pass(position.pass);
  info.mutable_position()->set_ordinal(position.ordinal);
  info.mutable_position()->set_batch(position.batch);
  info.mutable_position()->set_source(train->fingerprint());
  if (STARLING_WRONG("position_early") && position.batch > 0)
    info.mutable_position()->set_batch(position.batch - 1);
  if (STARLING_WRONG("position_late")) info.mutable_position()->set_batch(position.batch + 1);
  return info;
}

int64_t Trainer::Impl::ProtectedStep() const {
  return options().has_early_stop() && state.has_best_step() ? state.best_step() : -1;
}

absl::Status Trainer::Impl::Cut() { return checkpoints->Cut(InfoNow(), ProtectedStep()); }
absl::Status Trainer::Impl::Save() { return checkpoints->Save(InfoNow(), ProtectedStep()); }

// Leaves the best model if the job asked for it, and a checkpoint that says so.
absl::Status Trainer::Impl::Finish() {
  bool finished_before = state.finished();
  if (options().has_early_stop() && state.best_step() != state.step() && !finished_before) {
    std::string best = absl::StrFormat("step-%012d", state.best_step());
    ASSIGN_OR_RETURN(Checkpoint checkpoint,
                     OpenCheckpoint(JoinPath(CheckpointRoot(plan.job), best)));
    summary.stages = pipeline->times();
    summary.counts = pipeline->counts();
    RETURN_IF_ERROR(checkpoints->Await());
    RETURN_IF_ERROR(NewModel());
    RETURN_IF_ERROR(model->Load(checkpoint));
    log->Say(absl::StrCat("the model is that of step ", state.best_step(), ", the best evaluated"));
    summary.evaluated = false;
  }
  state.set_finished(true);
  if (!finished_before) RETURN_IF_ERROR(Save());
  if (eval == nullptr || summary.evaluated) return absl::OkStatus();
  ASSIGN_OR_RETURN(summary.eval, EvaluateNow());
  summary.evaluated = true;
  return absl::OkStatus();
}

}  // namespace starling
