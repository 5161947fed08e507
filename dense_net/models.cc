#include "dense_net/models.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "dense_net/losses.h"

namespace starling {
namespace {

struct ModelEntry {
  ModelOptions::KindCase kind;
  const char* name;
  SegmentNeeds needs;
  bool equal_dims;  // The model multiplies embeddings with each other.
  void (*check)(const ModelOptions& model, OptionCheck* check);
  Value (*build)(const GraphSpec& spec, GraphBuilder* graph);
  // If set: whether the options fit the features.
  absl::Status (*fit)(const GraphSpec& spec) = nullptr;
  // If set, in place of `build`: appends the losses too, of so many tasks.
  void (*build_tasks)(const GraphSpec& spec, GraphBuilder* graph) = nullptr;
  int tasks_min = 1, tasks_max = 1;
};

// A model's part of the options to the check of that part.
template <auto kPart, auto kCheck>
void Of(const ModelOptions& model, OptionCheck* check) {
  kCheck((model.*kPart)(), check);
}
void NoOptions(const ModelOptions&, OptionCheck*) {}
using M = ModelOptions;

constexpr ModelEntry kModels[] = {
    {M::kLr, "lr", {true, false}, false, NoOptions, BuildLr},
    {M::kFm, "fm", {true, true}, true, NoOptions, BuildFm},
    {M::kDnn, "dnn", {false, true}, false, Of<&M::dnn, CheckHidden<MlpOptions>>, BuildDnn},
    {M::kWideDeep,
     "wide_deep",
     {true, true},
     false,
     Of<&M::wide_deep, CheckHidden<MlpOptions>>,
     BuildWideDeep},
    {M::kDeepfm,
     "deepfm",
     {true, true},
     true,
     Of<&M::deepfm, CheckHidden<MlpOptions>>,
     BuildDeepFm},
    {M::kDcnv2, "dcnv2", {false, true}, false, Of<&M::dcnv2, CheckDcnV2>, BuildDcnV2},
    {M::kFwfm, "fwfm", {true, true}, true, NoOptions, BuildFwFm},
    {M::kNfm, "nfm", {true, true}, true, Of<&M::nfm, CheckHidden<MlpOptions>>, BuildNfm},
    {M::kDcn, "dcn", {false, true}, false, Of<&M::dcn, CheckDcn>, BuildDcn},
    {M::kXdeepfm, "xdeepfm", {true, true}, true, Of<&M::xdeepfm, CheckXDeepFm>, BuildXDeepFm},
    {M::kPnn, "pnn", {false, true}, true, Of<&M::pnn, CheckHidden<PnnOptions>>, BuildPnn},
    {M::kDlrm, "dlrm", {false, true}, true, Of<&M::dlrm, CheckDlrm>, BuildDlrm},
    {M::kAutoint, "autoint", {false, true}, true, Of<&M::autoint, CheckAutoInt>, BuildAutoInt},
    {M::kFinalmlp,
     "finalmlp",
     {false, true},
     false,
     Of<&M::finalmlp, CheckFinalMlp>,
     BuildFinalMlp,
     FitFinalMlp},
    {M::kDin, "din", {false, true, true}, false, Of<&M::din, CheckDin>, BuildDin, FitDin},
    {M::kDien, "dien", {false, true, true}, false, Of<&M::dien, CheckDien>, BuildDien, FitDien},
    {M::kEsmm,
     "esmm",
     {false, true},
     false,
     Of<&M::esmm, CheckEsmm>,
     nullptr,
     nullptr,
     BuildEsmm,
     2,
     2},
    {M::kMmoe,
     "mmoe",
     {false, true},
     false,
     Of<&M::mmoe, CheckMmoe>,
     nullptr,
     nullptr,
     BuildMmoe,
     1,
     kTasksMax},
    {M::kPle,
     "ple",
     {false, true},
     false,
     Of<&M::ple, CheckPle>,
     nullptr,
     nullptr,
     BuildPle,
     1,
     kTasksMax},
    {M::kDssm, "dssm", {false, true}, false, Of<&M::dssm, CheckDssm>, nullptr, FitDssm, BuildDssm},
    {M::kCustom,
     "custom",
     {false, true},
     false,
     NoOptions,
     nullptr,
     FitCustom,
     BuildCustom,
     1,
     kTasksMax},
};

const ModelEntry* Find(const ModelOptions& model) {
  for (const ModelEntry& entry : kModels) {
    if (entry.kind == model.kind_case()) return &entry;
  }
  return nullptr;
}

absl::Status CheckSlot(const SlotSpec& slot, const ModelEntry& model, const GraphSpec& spec) {
  const std::string where = absl::StrCat("model ", model.name, ": feature `", slot.name(), "`: ");
  if (slot.table() < 0 || slot.table() >= spec.table_width_size() || slot.slot() < 0) {
    return absl::InvalidArgumentError(absl::StrCat(where, "no table ", slot.table()));
  }
  if (slot.has_sequence() && !model.needs.sequences) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, "is a sequence, which this model reads pooled only"));
  }
  const int width = spec.table_width(slot.table());
  if (NeedsOf(spec.model()).linear && (slot.linear_offset() < 0 || slot.linear_offset() >= width)) {
    return absl::InvalidArgumentError(absl::StrCat(where, "its rows hold no first-order weight"));
  }
  if (!model.needs.embedding) return absl::OkStatus();
  if (slot.embedding_dim() <= 0 || slot.embedding_offset() < 0 ||
      slot.embedding_offset() + slot.embedding_dim() > width) {
    return absl::InvalidArgumentError(absl::StrCat(where, "its rows hold no embedding"));
  }
  if (model.equal_dims && slot.embedding_dim() != spec.slots(0).embedding_dim()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, "dim ", slot.embedding_dim(), " differs from dim ",
                     spec.slots(0).embedding_dim(), " of `", spec.slots(0).name(),
                     "`, and this model multiplies embeddings: give them one dim"));
  }
  return absl::OkStatus();
}

// Mlp and DcnV2 options have the deep part's fields in common.
absl::Status CheckOptions(const ModelOptions& model, const char* name) {
  const std::optional<BadModelOption> bad = FindBadOption(model);
  if (!bad) return absl::OkStatus();
  if (bad->key.empty()) return absl::InvalidArgumentError(absl::StrCat("model ", bad->message));
  const size_t dot = bad->key.rfind('.');
  const std::string inside =
      dot == std::string::npos ? "" : absl::StrCat(bad->key.substr(0, dot), ": ");
  return absl::InvalidArgumentError(absl::StrCat("model ", name, ": ", inside, bad->message));
}

absl::StatusOr<const ModelEntry*> Check(const GraphSpec& spec) {
  const ModelEntry* model = Find(spec.model());
  if (model == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("model: choose one of ", ModelNames()));
  }
  if (spec.slots().empty() && spec.raws().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("model ", model->name, ": no feature"));
  }
  if (spec.slots().empty() && model->equal_dims) {
    return absl::InvalidArgumentError(
        absl::StrCat("model ", model->name, ": needs at least one id feature"));
  }
  RETURN_IF_ERROR(CheckOptions(spec.model(), model->name));
  RETURN_IF_ERROR(CheckTasks(spec, model->name, model->tasks_min, model->tasks_max));
  for (const SlotSpec& slot : spec.slots()) RETURN_IF_ERROR(CheckSlot(slot, *model, spec));
  if (model->fit != nullptr) RETURN_IF_ERROR(model->fit(spec));
  return model;
}

}  // namespace

SegmentNeeds NeedsOf(const ModelOptions& model) {
  const ModelEntry* entry = Find(model);
  if (entry == nullptr) return {};
  SegmentNeeds needs = entry->needs;
  if (model.autoint().wide()) needs.linear = true;
  for (const CustomBlock& block : model.custom().blocks()) {
    for (const std::string& name : block.from()) needs.linear |= name == kFirstOrder;
  }
  return needs;
}

std::optional<BadModelOption> FindBadOption(const ModelOptions& model) {
  const ModelEntry* entry = Find(model);
  if (entry == nullptr) return std::nullopt;
  OptionCheck check;
  entry->check(model, &check);
  std::optional<BadModelOption> bad = check.bad();
  if (bad && bad->key.empty()) bad->message = absl::StrCat(entry->name, " ", bad->message);
  return bad;
}

bool MultipliesEmbeddings(const ModelOptions& model) {
  const ModelEntry* entry = Find(model);
  return entry != nullptr && entry->equal_dims;
}

std::string ModelNames() {
  return absl::StrJoin(kModels, ", ", [](std::string* out, const ModelEntry& entry) {
    absl::StrAppend(out, entry.name);
  });
}

absl::StatusOr<Graph> BuildGraph(const GraphSpec& spec) {
  ASSIGN_OR_RETURN(const ModelEntry* model, Check(spec));
  GraphBuilder builder;
  if (model->build_tasks != nullptr) {
    model->build_tasks(spec, &builder);
  } else {
    AddTaskLoss(spec, 0, model->build(spec, &builder), &builder);
  }
  return builder.Finish();
}

}  // namespace starling
