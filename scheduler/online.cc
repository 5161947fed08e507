#include "scheduler/online.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/metrics.h"
#include "base/status.h"
#include "base/sync_point.h"
#include "scheduler/schedule.h"
#include "scheduler/trainer.h"

namespace starling {

OnlineLearner::OnlineLearner(const Plan& plan, const SourceMap& map, const std::string& watch,
                             const std::atomic<bool>* stop)
    : plan_(plan), map_(map), watch_(watch), stop_(stop), pool_(plan.job.train().threads()) {}

absl::StatusOr<std::unique_ptr<OnlineLearner>> OnlineLearner::Create(
    const Plan& plan, const SourceMap& map, const std::string& watch,
    const std::atomic<bool>* stop) {
  RETURN_IF_ERROR(Annotate(ListDir(watch).status(), "--watch"));
  std::unique_ptr<OnlineLearner> learner(new OnlineLearner(plan, map, watch, stop));
  RETURN_IF_ERROR(learner->Start());
  return learner;
}

absl::Status OnlineLearner::NewModel() {
  checkpoints_ = nullptr;
  model_ = nullptr;  // First: the scratch directory is the same.
  ASSIGN_OR_RETURN(model_, LocalModel::Create(SpecOf(plan_), NetworkOptionsOf(plan_.job),
                                              ScratchDir(plan_.job), &pool_));
  checkpoints_ = std::make_unique<CheckpointKeeper>(
      plan_.job.train().checkpoint(), CheckpointRoot(plan_.job), &model_->store(), stop_,
      [this](absl::string_view line) { log_->Say(line); });
  return absl::OkStatus();
}

absl::Status OnlineLearner::TakeUp(const Checkpoint& checkpoint) {
  RETURN_IF_ERROR(NewModel());  // Of one that turned out to be damaged nothing is left.
  RETURN_IF_ERROR(CheckFits(checkpoint, model_->spec()));
  RETURN_IF_ERROR(model_->Load(checkpoint));
  state_ = checkpoint.info.state();
  checkpoints_->TakenUp(state_.step());
  done_.insert(checkpoint.info.files_done().begin(), checkpoint.info.files_done().end());
  return absl::OkStatus();
}

absl::Status OnlineLearner::Start() {
  const TrainOptions& t = plan_.job.train();
  ASSIGN_OR_RETURN(const std::optional<Checkpoint> latest,
                   CheckpointToResume(CheckpointRoot(plan_.job), /*resume=*/true,
                                      [this](const Checkpoint& c) { return TakeUp(c); }));
  if (!latest.has_value()) RETURN_IF_ERROR(NewModel());
  ASSIGN_OR_RETURN(log_,
                   RunLog::Create(JoinPath(t.dir(), "online"), 0, model_->network().outputs()[0]));
  if (latest.has_value()) {
    log_->Say(
        absl::StrCat("going on from ", latest->dir, ", ", done_.size(), " files learned before"));
  }
  ASSIGN_OR_RETURN(const PipelineOptions pipe, PipelineOptionsOf(t));
  pipeline_ = std::make_unique<StepPipeline>(&model_->network(), &model_->client(), &pool_, pipe);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SampleSource>> OnlineLearner::OpenFile(
    const std::string& path) const {
  const DataOptions& data = plan_.job.data();
  ASSIGN_OR_RETURN(std::unique_ptr<SampleSource> source,
                   SampleSource::Open({path}, {.where = data.where(),
                                               .may_be_empty = true,
                                               .read_memory = data.read_memory()}));
  RETURN_IF_ERROR(CheckSchema(plan_, map_, *source));
  // Every page is read once before anything is learned: a file counts whole or not at all.
  for (size_t s = 0; s < source->splits().size(); ++s) {
    RETURN_IF_ERROR(source->Read(static_cast<int>(s), model_->compiler().Columns()).status());
  }
  return source;
}

absl::StatusOr<bool> OnlineLearner::LearnNewFile() {
  static Counter& files_total = GetCounter("starling_online_files_total", "Files learned from.");
  static Counter& bad_total =
      GetCounter("starling_online_bad_files_total", "Files that could not be read.");
  ASSIGN_OR_RETURN(std::vector<std::string> names, ListDir(watch_));
  for (const std::string& name : names) {
    bool wanted = absl::EndsWith(name, ".parquet") && name[0] != '.' && name[0] != '_';
    if (!wanted || done_.contains(name) || bad_.contains(name)) continue;
    absl::StatusOr<std::unique_ptr<SampleSource>> source = OpenFile(JoinPath(watch_, name));
    if (!source.ok()) {
      log_->Say(absl::StrCat("BAD FILE, left out: ", source.status().message()));
      bad_.insert(name);
      bad_total.Add(1);
      continue;
    }
    RETURN_IF_ERROR(Learn(**source, name));
    files_total.Add(1);
    if (checkpoints_->Due(state_.step())) RETURN_IF_ERROR(checkpoints_->Cut(InfoNow()));
    return true;
  }
  return false;
}

absl::Status OnlineLearner::Learn(const SampleSource& source, const std::string& name) {
  const TrainOptions& t = plan_.job.train();
  BatchReaderOptions reading;
  // The file's name is part of the batches' names: each file is a job of its own.
  reading.job = HashBytes(name, HashBytes(plan_.job.name(), 0));
  reading.batch_rows = plan_.job.data().batch();
  reading.pool = &pool_;
  reading.seed = t.seed();
  reading.sample = plan_.job.data().sample();
  reading.bad_rows_max = 1.0;  // A daemon goes on; bad rows are kept apart and counted.
  reading.quarantine = JoinPath(t.dir(), absl::StrCat("quarantine/", name));
  ASSIGN_OR_RETURN(std::unique_ptr<BatchReader> reader,
                   BatchReader::Create(&source, &model_->compiler(), reading, {}));
  absl::Status log_status;
  RETURN_IF_ERROR(pipeline_->Run(
      reader.get(), state_.step(),
      [&](int64_t step) { return LearningRateScale(t.schedule(), step, state_.lr_scale()); },
      [&](const StepReport& r) {
        state_.set_step(r.step + 1);
        state_.set_samples(state_.samples() + r.batch->rows);
        state_.set_event_time(std::max(state_.event_time(), r.batch->event_time_max));
        log_status = log_->Step(state_.step(), state_.samples(), r.loss, 1, r.scores, *r.batch);
        return true;
      }));
  RETURN_IF_ERROR(log_status);
  done_.insert(name);
  STARLING_SYNC_POINT("online:file_learned");
  log_->Say(absl::StrCat("learned ", name, ": ", source.rows(), " rows, ", reader->bad_rows(),
                         " bad, step ", state_.step()));
  return absl::OkStatus();
}

CheckpointInfo OnlineLearner::InfoNow() const {
  CheckpointInfo info = InfoOf(plan_, 1);
  *info.mutable_state() = state_;
  for (const std::string& name : done_) info.add_files_done(name);
  return info;
}

absl::Status OnlineLearner::Begin() {
  if (checkpoints_->saved_step() == state_.step()) return absl::OkStatus();
  return checkpoints_->Cut(InfoNow());
}

absl::Status OnlineLearner::Await() {
  absl::Status status = checkpoints_->Await();
  // Failed, at first or in the background: as the last one of a run, it is made now or is an error.
  if (!status.ok()) log_->Say(absl::StrCat("CHECKPOINT FAILED: ", status.message()));
  if (checkpoints_->saved_step() == state_.step()) return absl::OkStatus();
  return checkpoints_->Save(InfoNow());
}

}  // namespace starling
