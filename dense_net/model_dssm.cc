#include <algorithm>

#include "absl/strings/str_cat.h"
#include "dense_net/losses.h"
#include "dense_net/models.h"

namespace starling {
namespace {

bool Lists(const FeatureNames& names, const std::string& feature) {
  return std::find(names.begin(), names.end(), feature) != names.end();
}

Value Tower(const GraphSpec& spec, const FeatureNames& names, const Inputs& inputs,
            const std::string& side, GraphBuilder* graph) {
  const DssmOptions& options = spec.model().dssm();
  const Value x = FeatureColumns(spec, names, inputs, side, graph);
  const MlpOptions& tower = options.tower();
  MlpOptions hidden = tower;
  hidden.mutable_hidden()->RemoveLast();
  FullyConnectedOptions last;
  last.width = tower.hidden(tower.hidden_size() - 1);
  const Value vector = FullyConnected(graph, side + ".vector", Mlp(hidden, side, x, graph), last);
  return options.match() == DssmOptions::COSINE ? Normalize(graph, side + ".unit", vector) : vector;
}

absl::Status CheckSide(const GraphSpec& spec, const FeatureNames& names, const char* side) {
  if (names.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model dssm: ", side, " lists no feature; name those of its tower"));
  }
  for (const std::string& name : names) {
    if (HasFeature(spec, name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("model dssm: ", side, ": no feature `", name, "`"));
  }
  return absl::OkStatus();
}

absl::Status CheckInOneTower(const DssmOptions& options, const std::string& feature) {
  const bool user = Lists(options.user(), feature), item = Lists(options.item(), feature);
  if (user != item) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "model dssm: feature `", feature, "` must be in one tower: list it in user or in item",
      user ? ", not in both" : ""));
}

const SlotSpec* FindSlot(const GraphSpec& spec, const std::string& name) {
  for (const SlotSpec& slot : spec.slots()) {
    if (slot.name() == name) return &slot;
  }
  return nullptr;
}

}  // namespace

void CheckDssm(const DssmOptions& options, OptionCheck* check) {
  check->Deep(options.tower(), "tower");
  check->Require(options.tower().hidden_size() > 0, "tower",
                 "tower needs hidden; its last width is that of the vectors");
  check->Above("temperature", options.temperature(), 0);
}

absl::Status FitDssm(const GraphSpec& spec) {
  const DssmOptions& options = spec.model().dssm();
  absl::Status status = CheckSide(spec, options.user(), "user");
  status.Update(CheckSide(spec, options.item(), "item"));
  for (const SlotSpec& slot : spec.slots()) status.Update(CheckInOneTower(options, slot.name()));
  for (const std::string& raw : spec.raws()) {
    status.Update(CheckInOneTower(options, RawFeatureOf(raw)));
  }
  for (const TaskOptions& task : spec.tasks()) {
    const LossOptions::SampledSoftmax& softmax = task.loss().sampled_softmax();
    if (softmax.has_item() && FindSlot(spec, softmax.item()) == nullptr) {
      status.Update(absl::InvalidArgumentError(absl::StrCat(
          "task `", task.name(), "`: sampled_softmax.item: no id feature `", softmax.item(), "`")));
    }
  }
  return status;
}

// Two towers that meet in one product (Huang et al. 2013): a user's vector and
// an item's, each a function of its own side's features alone.
void BuildDssm(const GraphSpec& spec, GraphBuilder* graph) {
  const DssmOptions& options = spec.model().dssm();
  const Inputs inputs = MakeInputs(spec, graph, true);
  const Value user = Tower(spec, options.user(), inputs, "user", graph);
  const Value item = Tower(spec, options.item(), inputs, "item", graph);
  graph->graph().vectors = {{"user_vector", user.id}, {"item_vector", item.id}};
  const double scale = 1 / options.temperature();
  if (spec.tasks_size() == 0 || !spec.tasks(0).loss().has_sampled_softmax()) {
    return AddTaskLoss(spec, 0, Dot(graph, "match", user, item, scale), graph);
  }
  SoftmaxOptions softmax{.scale = scale, .sampling = spec.tasks(0).loss().sampled_softmax()};
  const SlotSpec* slot = FindSlot(spec, softmax.sampling.item());
  if (slot != nullptr) softmax.item = *slot;
  SoftmaxLoss(graph, AddTask(spec, 0, graph), user, item, softmax);
}

}  // namespace starling
