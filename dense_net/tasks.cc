// From the tasks of a spec to outputs and losses.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "dense_net/losses.h"

namespace starling {
namespace {

constexpr int kNoLabel = -1;

int LabelIndex(const GraphSpec& spec, const std::string& name) {
  const auto found = std::find(spec.labels().begin(), spec.labels().end(), name);
  return found == spec.labels().end() ? kNoLabel : static_cast<int>(found - spec.labels().begin());
}

absl::Status CheckSoftmax(const LossOptions::SampledSoftmax& softmax, const std::string& where) {
  auto refuse = [&](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat(where, "sampled_softmax: ", what));
  };
  if (softmax.negatives() < 0) return refuse("negatives must be at least 0");
  if (softmax.has_sampler() && softmax.negatives() == 0) {
    return refuse("sampler draws negatives: say how many");
  }
  if (!softmax.has_item() && (softmax.has_streaming() || softmax.negatives() > 0)) {
    return refuse("streaming and negatives need item, which tells items apart");
  }
  const double rate = softmax.streaming().rate();
  if (!(rate > 0 && rate <= 1)) return refuse("streaming.rate must be above 0 and at most 1");
  const int buckets = softmax.streaming().buckets();
  if (buckets < 1 || buckets > 1 << 26) return refuse("streaming.buckets must be in 1..67108864");
  return absl::OkStatus();
}

absl::Status CheckLoss(const LossOptions& loss, const std::string& where) {
  const bool log = !loss.has_log() || loss.log().positive_weight() > 0;
  const bool focal = !loss.has_focal() || (loss.focal().gamma() >= 0 && loss.focal().alpha() > 0 &&
                                           loss.focal().alpha() < 1);
  if (!log) {
    return absl::InvalidArgumentError(absl::StrCat(where, "positive_weight must be more than 0"));
  }
  if (!focal) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, "focal needs gamma of at least 0 and alpha between 0 and 1"));
  }
  return CheckSoftmax(loss.sampled_softmax(), where);
}

absl::Status CheckTask(const GraphSpec& spec, const TaskOptions& task, const std::string& where) {
  if (LabelIndex(spec, task.label()) == kNoLabel) {
    return absl::InvalidArgumentError(absl::StrCat(where, "no label `", task.label(), "`"));
  }
  if (task.has_given() && LabelIndex(spec, task.given()) == kNoLabel) {
    return absl::InvalidArgumentError(absl::StrCat(where, "given: no label `", task.given(), "`"));
  }
  if (!(task.weight() > 0)) {
    return absl::InvalidArgumentError(absl::StrCat(where, "weight must be more than 0"));
  }
  return CheckLoss(task.loss(), where);
}

}  // namespace

LossRows RowsOf(const LossPlace& place, const Step& step, int64_t first) {
  const BatchArrays& arrays = *step.share.arrays;
  const float* labels = arrays.labels + first * step.labels;
  return {.labels = labels + place.label,
          .given = place.given < 0 ? nullptr : labels + place.given,
          .weights = arrays.weights == nullptr ? nullptr : arrays.weights + first,
          .stride = step.labels,
          .weight = place.weight};
}

void StoreScores(const Step& step, int output, int64_t first, int m, const Real* scores) {
  if (output < 0) return;
  step.device->fields().copy_rows(
      m, 1, {scores, 1}, {step.scores + first * step.outputs + output, step.outputs}, false);
}

int TaskCount(const GraphSpec& spec) { return std::max(1, spec.tasks_size()); }

absl::Status CheckTasks(const GraphSpec& spec, const std::string& model, int least, int most) {
  const int tasks = TaskCount(spec);
  if (tasks < least || tasks > most) {
    const std::string takes =
        least == most ? absl::StrCat(least) : absl::StrCat(least, " to ", most);
    return absl::InvalidArgumentError(absl::StrCat(
        "model ", model, ": takes ", takes, most == 1 ? " task" : " tasks", ", not ", tasks));
  }
  for (const TaskOptions& task : spec.tasks()) {
    const std::string where = absl::StrCat("task `", task.name(), "`: ");
    RETURN_IF_ERROR(CheckTask(spec, task, where));
    if (task.loss().has_sampled_softmax() && !spec.model().has_dssm()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, "sampled_softmax needs two towers: model dssm, not ", model));
    }
  }
  return absl::OkStatus();
}

LossPlace AddTask(const GraphSpec& spec, int t, GraphBuilder* graph) {
  LossPlace place{.name = "loss"};
  OutputSpec output{.name = "probability"};
  if (spec.tasks_size() > 0) {
    const TaskOptions& task = spec.tasks(t);
    place.name = absl::StrCat("loss.", task.name());
    place.weight = task.weight();
    place.score = task.name();
    output.name = task.name();
    output.label = LabelIndex(spec, task.label());
    output.given = task.has_given() ? LabelIndex(spec, task.given()) : kNoLabel;
    output.probability = !task.loss().has_mse();
  }
  place.label = output.label;
  place.given = output.given;
  place.output = graph->AddOutput(std::move(output));
  return place;
}

void AddTaskLoss(const GraphSpec& spec, int t, Value logit, GraphBuilder* graph) {
  const LossPlace place = AddTask(spec, t, graph);
  const LossOptions loss = spec.tasks_size() > 0 ? spec.tasks(t).loss() : LossOptions();
  switch (loss.kind_case()) {
    case LossOptions::kFocal:
      return FocalLoss(graph, place, logit, loss.focal().gamma(), loss.focal().alpha());
    case LossOptions::kMse:
      return SquaredLoss(graph, place, logit);
    case LossOptions::kPairwise:
      return PairwiseLoss(graph, place, logit);
    default:
      return LogLoss(graph, place, logit, loss.log().positive_weight());
  }
}

}  // namespace starling
