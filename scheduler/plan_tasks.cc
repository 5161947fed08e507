#include "scheduler/plan_tasks.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "dense_net/forward.h"
#include "scheduler/plan_checks.h"

namespace starling {
namespace {

class TaskPlanner {
 public:
  TaskPlanner(const SourceMap& map, Plan* plan)
      : map_(map), plan_(*plan), data_(plan->job.data()) {}

  absl::Status Run() {
    if (plan_.job.tasks_size() > 0 || data_.label_size() > 1) RETURN_IF_ERROR(AddTasks());
    return CheckNetwork();
  }

 private:
  absl::Status AddTasks() {
    FillDefaults();
    for (int t = 0; t < tasks_.size(); ++t) {
      RETURN_IF_ERROR(CheckNames(tasks_[t], absl::StrCat("tasks[", t, "]")));
      RETURN_IF_ERROR(CheckLoss(tasks_[t], absl::StrCat("tasks[", t, "]")));
    }
    RETURN_IF_ERROR(CheckAllRead());
    *plan_.graph.mutable_tasks() = tasks_;
    *plan_.graph.mutable_labels() = data_.label();
    for (const TaskOptions& task : tasks_) {
      if (task.loss().has_mse()) plan_.features.add_number_labels(task.label());
    }
    return absl::OkStatus();
  }

  // A task for each label if there are none; the only label where none is named.
  void FillDefaults() {
    tasks_ = plan_.job.tasks();
    for (int i = 0; plan_.job.tasks_size() == 0 && i < data_.label_size(); ++i) {
      tasks_.Add()->set_name(data_.label(i));
      tasks_[i].set_label(data_.label(i));
    }
    for (TaskOptions& task : tasks_) {
      if (!task.has_label() && data_.label_size() == 1) task.set_label(data_.label(0));
    }
  }

  absl::Status CheckNames(const TaskOptions& task, const std::string& path) {
    if (!names_.insert(task.name()).second) {
      return map_.Error(path + ".name",
                        absl::StrCat("task \"", task.name(), "\" is there already"));
    }
    if (!IsName(task.name())) {
      return map_.Error(
          path + ".name",
          absl::StrCat("task \"", task.name(), "\": a name is letters, digits, `_`, `-` and `.`"));
    }
    if (task.name() == "row") {
      return map_.Error(path + ".name", "\"row\" is a column of predictions: take another name");
    }
    if (!task.has_label()) {
      return map_.Error(path, "which label? Set `label` to one of data.label");
    }
    RETURN_IF_ERROR(CheckLabel(task.label(), path + ".label"));
    if (task.has_given()) RETURN_IF_ERROR(CheckLabel(task.given(), path + ".given"));
    if (!(task.weight() > 0)) return map_.Error(path + ".weight", "weight must be more than 0");
    return absl::OkStatus();
  }

  absl::Status CheckLabel(const std::string& name, const std::string& path) {
    read_.insert(name);
    const std::vector<std::string> labels(data_.label().begin(), data_.label().end());
    if (std::find(labels.begin(), labels.end(), name) != labels.end()) return absl::OkStatus();
    return map_.Error(
        path, absl::StrCat("\"", name, "\" is none of data.label", DidYouMean(name, labels)));
  }

  absl::Status CheckLoss(const TaskOptions& task, const std::string& path) const {
    const LossOptions& loss = task.loss();
    const std::string at = path + ".loss";
    if (loss.has_log() && !(loss.log().positive_weight() > 0)) {
      return map_.Error(at + ".log.positive_weight", "positive_weight must be more than 0");
    }
    if (loss.has_focal() && !(loss.focal().gamma() >= 0)) {
      return map_.Error(at + ".focal.gamma", "gamma must be at least 0");
    }
    if (loss.has_focal() && !(loss.focal().alpha() > 0 && loss.focal().alpha() < 1)) {
      return map_.Error(at + ".focal.alpha", "alpha must be between 0 and 1");
    }
    if (loss.has_pairwise() && !data_.has_group() && !data_.has_request()) {
      return map_.Error(at + ".pairwise",
                        "pairs are formed inside a group: set data.group or data.request");
    }
    return absl::OkStatus();
  }

  // Nothing is read for naught.
  absl::Status CheckAllRead() const {
    for (int i = 0; i < data_.label_size(); ++i) {
      if (read_.contains(data_.label(i))) continue;
      return map_.Error(absl::StrCat("data.label[", i, "]"),
                        absl::StrCat("no task reads label \"", data_.label(i), "\": remove it"));
    }
    return absl::OkStatus();
  }

  // What the network itself finds wrong with model and tasks, at the model's place.
  absl::Status CheckNetwork() const {
    absl::StatusOr<std::unique_ptr<Network>> network =
        Network::Create(plan_.graph, NetworkOptions());
    if (!network.ok()) return map_.Error("model", std::string(network.status().message()));
    std::vector<std::string> outputs;
    for (const OutputSpec& output : (*network)->outputs()) {
      if (std::find(outputs.begin(), outputs.end(), output.name) != outputs.end()) {
        return map_.Error("model", absl::StrCat("two outputs are named \"", output.name, "\""));
      }
      outputs.push_back(output.name);
    }
    const EarlyStopOptions& early = plan_.job.train().early_stop();
    const bool known = std::find(outputs.begin(), outputs.end(), early.task()) != outputs.end();
    if (!early.has_task() || known) return absl::OkStatus();
    return map_.Error("train.early_stop.task", absl::StrCat("no task \"", early.task(), "\"",
                                                            DidYouMean(early.task(), outputs)));
  }

  const SourceMap& map_;
  Plan& plan_;
  const DataOptions& data_;
  google::protobuf::RepeatedPtrField<TaskOptions> tasks_;
  std::set<std::string> names_, read_;
};

}  // namespace

absl::Status PlanTasks(const SourceMap& map, Plan* plan) { return TaskPlanner(map, plan).Run(); }

}  // namespace starling
