#include "scheduler/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "scheduler/run_log.h"
#include "scheduler/schedule.h"

namespace starling {
namespace {

double Seconds() { return static_cast<double>(absl::GetCurrentTimeNanos()) * 1e-9; }

// The metric early stopping follows, larger is better.
double Judged(const EarlyStopOptions& options, const std::vector<EvalMetrics>& metrics) {
  const auto found = std::find_if(metrics.begin(), metrics.end(), [&](const EvalMetrics& m) {
    return options.has_task() && m.output == options.task();
  });
  const EvalMetrics& m = found == metrics.end() ? metrics[0] : *found;
  if (!m.probability) return -m.rmse;
  switch (options.metric()) {
    case EarlyStopOptions::GAUC:
      return m.gauc;
    case EarlyStopOptions::LOGLOSS:
      return -m.logloss;
    default:
      return m.auc;
  }
}

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

CheckpointInfo InfoOf(const Plan& plan, int shards) {
  CheckpointInfo info;
  ModelSpec spec = SpecOf(plan);
  info.set_job(plan.job.name());
  info.set_seed(plan.job.train().seed());
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
  std::unique_ptr<StepPipeline> pipeline;
  std::unique_ptr<RunLog> log;
  TrainerState state;
  ReaderPosition position;
  TrainSummary summary;
  double saved_at = 0;      // Time of the last checkpoint.
  int64_t saved_step = -1;  // Step of the last checkpoint.
  std::string best_dir;     // Checkpoint of the best evaluation.
  absl::Status log_status;

  const TrainOptions& options() const { return plan.job.train(); }

  Impl(const Plan& p, const SampleSource* t, const SampleSource* e, const std::atomic<bool>* s)
      : plan(p), train(t), eval(e), stop(s), pool(p.job.train().threads()) {}

  absl::Status NewModel();
  absl::Status Start(bool resume);
  absl::Status TakeUp(const Checkpoint& checkpoint);
  absl::Status RunPasses();
  absl::Status RunPass();
  absl::Status SaveAndLeave(const absl::Status& status);
  absl::Status RunUntilCut(bool* pass_ended);
  bool OnStep(const StepReport& report);
  absl::Status AfterPass(bool* stop_early);
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

absl::Status Trainer::Run(bool resume) {
  RETURN_IF_ERROR(impl_->Start(resume));
  absl::Status status = impl_->RunPasses();
  impl_->summary.state = impl_->state;
  impl_->summary.train_loss = impl_->log->train_loss();
  impl_->summary.train_auc = impl_->log->train_auc();
  if (impl_->pipeline != nullptr) {
    impl_->summary.stages = impl_->pipeline->times();
    impl_->summary.counts = impl_->pipeline->counts();
  }
  return status;
}

absl::Status Trainer::Impl::NewModel() {
  pipeline = nullptr;
  model = nullptr;  // First: the scratch directory is the same.
  ASSIGN_OR_RETURN(model, LocalModel::Create(SpecOf(plan), NetworkOptionsOf(plan.job),
                                             ScratchDir(plan.job), &pool));
  return absl::OkStatus();
}

absl::Status Trainer::Impl::Start(bool resume) {
  std::string root = CheckpointRoot(plan.job);
  absl::StatusOr<Checkpoint> latest = LatestCheckpoint(root);
  if (!latest.ok() && !absl::IsNotFound(latest.status())) return latest.status();
  if (latest.ok() && !resume) {
    return absl::AlreadyExistsError(
        absl::StrCat(root, ": holds checkpoints up to step ", latest->info.state().step(),
                     "; go on from there with --resume, or choose another train.dir"));
  }
  RETURN_IF_ERROR(NewModel());
  ASSIGN_OR_RETURN(log, RunLog::Create(options().dir(), train->rows() * options().epochs(),
                                       model->network().outputs()[0]));
  if (latest.ok()) {
    RETURN_IF_ERROR(TakeUp(*latest));
  } else if (resume) {
    log->Say(absl::StrCat(root, ": no checkpoint yet, starting from the beginning"));
  }
  PipelineOptions pipe{options().staleness(), options().clip_norm(), options().seed()};
  pipeline = std::make_unique<StepPipeline>(&model->network(), &model->client(), &pool, pipe);
  saved_at = Seconds();
  return absl::OkStatus();
}

absl::Status Trainer::Impl::TakeUp(const Checkpoint& checkpoint) {
  RETURN_IF_ERROR(CheckFits(checkpoint, model->spec()));
  const Position& at = checkpoint.info.position();
  if (at.source() != train->fingerprint()) {
    return absl::FailedPreconditionError(absl::StrCat(
        checkpoint.dir, ": its position is in another set of files than data.train names now"));
  }
  RETURN_IF_ERROR(model->Load(checkpoint));
  state = checkpoint.info.state();
  position = {at.pass(), at.ordinal(), at.batch()};
  saved_step = state.step();
  summary.checkpoint = checkpoint.dir;
  log->Say(absl::StrCat("resumed from ", checkpoint.dir, " at step ", state.step()));
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

// The model is that of the last good step: worth keeping, whatever ended the run.
absl::Status Trainer::Impl::SaveAndLeave(const absl::Status& status) {
  absl::Status saved = state.step() != saved_step ? Save() : absl::OkStatus();
  if (!saved.ok()) log->Say(saved.message());
  if (!absl::IsCancelled(status)) return status;
  if (!saved.ok()) return saved;
  return absl::CancelledError(absl::StrCat("stopped at step ", state.step(), ", saved ",
                                           summary.checkpoint, "; go on with --resume"));
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
    RETURN_IF_ERROR(Save());
  }
}

// Trains from `position` until the pass ends, a checkpoint is due, or `stop`.
absl::Status Trainer::Impl::RunUntilCut(bool* pass_ended) {
  const DataOptions& data = plan.job.data();
  BatchReaderOptions reading;
  reading.job = HashBytes(plan.job.name(), 0);
  reading.batch_rows = data.batch();
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
  absl::Status status = pipeline->Run(
      reader.get(), state.step(),
      [&](int64_t step) { return LearningRateScale(options().schedule(), step, state.lr_scale()); },
      [&](const StepReport& report) {
        cut |= !OnStep(report);
        return !cut;
      });
  *pass_ended = status.ok() && !cut;
  BatchReader::Times times = reader->times();
  summary.read_seconds += times.read;
  summary.compile_seconds += times.compile;
  summary.bad_rows += reader->bad_rows();
  if (*pass_ended && state.samples() == 0) {
    return absl::FailedPreconditionError(
        "no row of data.train was left to train on: all are bad, or passed over by data.where or "
        "data.sample");
  }
  return status;
}

// False: a cut is due.
bool Trainer::Impl::OnStep(const StepReport& report) {
  state.set_step(report.step + 1);
  state.set_samples(state.samples() + report.batch->rows);
  state.set_event_time(std::max(state.event_time(), report.batch->event_time_max));
  position = report.next;
  ++summary.steps;
  summary.samples += report.batch->rows;
  summary.requests += report.batch->requests;
  summary.request_work += report.batch->request_work;
  summary.row_work += report.batch->row_work;
  double scale = LearningRateScale(options().schedule(), report.step, state.lr_scale());
  log_status =
      log->Step(state.step(), state.samples(), report.loss, scale, report.scores, *report.batch);
  if (!log_status.ok() || stop->load(std::memory_order_relaxed)) return false;
  const CheckpointOptions& cut = options().checkpoint();
  if (cut.every_steps() > 0 && state.step() % cut.every_steps() == 0) return false;
  return cut.every() <= 0 || Seconds() - saved_at < cut.every();
}

absl::StatusOr<std::vector<EvalMetrics>> Trainer::Impl::EvaluateNow() {
  double start = Seconds();
  std::function<bool()> stopped = [this] { return stop->load(); };
  ScoreOptions score{plan.job.data().batch(), plan.job.data().bad_rows_max(), &stopped};
  absl::StatusOr<std::vector<EvalMetrics>> metrics = Evaluate(model.get(), *eval, score, &pool);
  summary.eval_seconds += Seconds() - start;
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

absl::Status Trainer::Impl::Save() {
  double start = Seconds();
  CheckpointInfo info = InfoOf(plan, 1);
  *info.mutable_state() = state;
  info.mutable_position()->set_pass(position.pass);
  info.mutable_position()->set_ordinal(position.ordinal);
  info.mutable_position()->set_batch(position.batch);
  info.mutable_position()->set_source(train->fingerprint());
  int64_t protect = options().has_early_stop() && state.has_best_step() ? state.best_step() : -1;
  ASSIGN_OR_RETURN(
      summary.checkpoint,
      WriteCheckpoint(CheckpointRoot(plan.job), info, options().checkpoint().keep(), protect,
                      [&](const std::string& dir) { return model->store().Save(dir); }));
  saved_step = state.step();
  saved_at = Seconds();
  summary.checkpoint_seconds += saved_at - start;
  return absl::OkStatus();
}

// Leaves the best model if the job asked for it, and a checkpoint that says so.
absl::Status Trainer::Impl::Finish() {
  bool finished_before = state.finished();
  if (options().has_early_stop() && state.best_step() != state.step() && !finished_before) {
    std::string best = absl::StrFormat("step-%012d", state.best_step());
    ASSIGN_OR_RETURN(Checkpoint checkpoint,
                     OpenCheckpoint(JoinPath(CheckpointRoot(plan.job), best)));
    summary.stages = pipeline->times();
    summary.counts = pipeline->counts();
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
