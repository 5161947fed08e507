#include "dense_net/models.h"

#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "dense_net/losses.h"
#include "dense_net/target_attention.h"

namespace starling {
namespace {

struct ModelEntry {
  ModelOptions::KindCase kind;
  const char* name;
  SegmentNeeds needs;
  bool equal_dims;  // The model multiplies embeddings with each other.
  Value (*build)(const GraphSpec& spec, GraphBuilder* graph);
  // If set, in place of `build`: appends the losses too, of so many tasks.
  void (*build_tasks)(const GraphSpec& spec, GraphBuilder* graph) = nullptr;
  int tasks_min = 1, tasks_max = 1;
};

constexpr ModelEntry kModels[] = {
    {ModelOptions::kLr, "lr", {true, false}, false, BuildLr},
    {ModelOptions::kFm, "fm", {true, true}, true, BuildFm},
    {ModelOptions::kDnn, "dnn", {false, true}, false, BuildDnn},
    {ModelOptions::kWideDeep, "wide_deep", {true, true}, false, BuildWideDeep},
    {ModelOptions::kDeepfm, "deepfm", {true, true}, true, BuildDeepFm},
    {ModelOptions::kDcnv2, "dcnv2", {false, true}, false, BuildDcnV2},
    {ModelOptions::kFwfm, "fwfm", {true, true}, true, BuildFwFm},
    {ModelOptions::kNfm, "nfm", {true, true}, true, BuildNfm},
    {ModelOptions::kDcn, "dcn", {false, true}, false, BuildDcn},
    {ModelOptions::kXdeepfm, "xdeepfm", {true, true}, true, BuildXDeepFm},
    {ModelOptions::kPnn, "pnn", {false, true}, true, BuildPnn},
    {ModelOptions::kDlrm, "dlrm", {false, true}, true, BuildDlrm},
    {ModelOptions::kAutoint, "autoint", {false, true}, true, BuildAutoInt},
    {ModelOptions::kFinalmlp, "finalmlp", {false, true}, false, BuildFinalMlp},
    {ModelOptions::kDin, "din", {false, true, true}, false, BuildDin},
    {ModelOptions::kDien, "dien", {false, true, true}, false, BuildDien},
    {ModelOptions::kEsmm, "esmm", {false, true}, false, nullptr, BuildEsmm, 2, 2},
    {ModelOptions::kMmoe, "mmoe", {false, true}, false, nullptr, BuildMmoe, 1, kTasksMax},
    {ModelOptions::kPle, "ple", {false, true}, false, nullptr, BuildPle, 1, kTasksMax},
    {ModelOptions::kDssm, "dssm", {false, true}, false, nullptr, BuildDssm},
    {ModelOptions::kCustom, "custom", {false, true}, false, nullptr, BuildCustom, 1, kTasksMax},
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
template <typename Options>
absl::Status CheckDeep(const Options& options, const char* name) {
  for (int width : options.hidden()) {
    if (width <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("model ", name, ": hidden: ", width, " is not a width; use 1 or more"));
    }
  }
  if (!(options.dropout() >= 0 && options.dropout() < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("model ", name, ": dropout ", options.dropout(), " is not in [0, 1)"));
  }
  if constexpr (std::is_same_v<Options, MlpOptions>) {
    if (options.batch_norm() && options.layer_norm()) {
      return absl::InvalidArgumentError(
          absl::StrCat("model ", name, ": batch_norm and layer_norm: choose one"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCross(int layers, const char* name) {
  if (layers >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model ", name, ": cross_layers must be 1 or more"));
}

absl::Status CheckAttention(const AutoIntOptions& options) {
  if (options.attention_layers() < 1) {
    return absl::InvalidArgumentError("model autoint: attention_layers must be 1 or more");
  }
  if (options.heads() >= 1 && options.attention_dim() >= 1 &&
      options.attention_dim() % options.heads() == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("model autoint: heads: ", options.heads(),
                   " must divide attention_dim: ", options.attention_dim()));
}

absl::Status CheckCin(const XDeepFmOptions& options) {
  for (int maps : options.cin()) {
    if (maps <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("model xdeepfm: cin: ", maps, " is not a number of maps; use 1 or more"));
    }
  }
  if (options.cin_size() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("model xdeepfm: give the maps of each layer, as cin: [64]");
}

absl::Status CheckCount(const char* key, int value, const char* name) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model ", name, ": ", key, " must be 1 or more"));
}

// What mixes experts has both MLPs in common.
template <typename Options>
absl::Status CheckExperts(const Options& options, const char* name) {
  if (options.expert().hidden_size() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model ", name, ": an expert needs hidden, as in {expert: {hidden: [64]}}"));
  }
  RETURN_IF_ERROR(CheckDeep(options.expert(), name));
  return CheckDeep(options.tower(), name);
}

absl::Status CheckOptions(const ModelOptions& model, const char* name) {
  switch (model.kind_case()) {
    case ModelOptions::kDnn:
      return CheckDeep(model.dnn(), name);
    case ModelOptions::kWideDeep:
      return CheckDeep(model.wide_deep(), name);
    case ModelOptions::kDeepfm:
      return CheckDeep(model.deepfm(), name);
    case ModelOptions::kDcnv2:
      RETURN_IF_ERROR(CheckCross(model.dcnv2().cross_layers(), name));
      return CheckDeep(model.dcnv2(), name);
    case ModelOptions::kNfm:
      return CheckDeep(model.nfm(), name);
    case ModelOptions::kDcn:
      RETURN_IF_ERROR(CheckCross(model.dcn().cross_layers(), name));
      return CheckDeep(model.dcn(), name);
    case ModelOptions::kXdeepfm:
      RETURN_IF_ERROR(CheckCin(model.xdeepfm()));
      return CheckDeep(model.xdeepfm(), name);
    case ModelOptions::kPnn:
      return CheckDeep(model.pnn(), name);
    case ModelOptions::kDlrm:
      for (int width : model.dlrm().bottom()) {
        if (width <= 0) return absl::InvalidArgumentError("model dlrm: bottom must be 1 or more");
      }
      return CheckDeep(model.dlrm(), name);
    case ModelOptions::kAutoint:
      RETURN_IF_ERROR(CheckAttention(model.autoint()));
      return CheckDeep(model.autoint(), name);
    case ModelOptions::kFinalmlp:
      RETURN_IF_ERROR(CheckDeep(model.finalmlp().mlp1(), name));
      return CheckDeep(model.finalmlp().mlp2(), name);
    case ModelOptions::kDin:
      RETURN_IF_ERROR(CheckDeep(AttentionMlp(model.din()), "din: attention"));
      return CheckDeep(model.din(), name);
    case ModelOptions::kDien:
      if (!(model.dien().auxiliary_weight() >= 0)) {
        return absl::InvalidArgumentError("model dien: auxiliary_weight must be 0 or more");
      }
      RETURN_IF_ERROR(CheckDeep(AttentionMlp(model.dien()), "dien: attention"));
      return CheckDeep(model.dien(), name);
    case ModelOptions::kEsmm:
      return CheckDeep(model.esmm(), name);
    case ModelOptions::kMmoe:
      RETURN_IF_ERROR(CheckExperts(model.mmoe(), name));
      return CheckCount("experts", model.mmoe().experts(), name);
    case ModelOptions::kPle:
      RETURN_IF_ERROR(CheckExperts(model.ple(), name));
      RETURN_IF_ERROR(CheckCount("levels", model.ple().levels(), name));
      RETURN_IF_ERROR(CheckCount("shared_experts", model.ple().shared_experts(), name));
      return CheckCount("task_experts", model.ple().task_experts(), name);
    case ModelOptions::kDssm:
      return CheckDeep(model.dssm().tower(), name);
    default:
      return absl::OkStatus();
  }
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
  if (spec.model().has_finalmlp()) RETURN_IF_ERROR(CheckFinalMlp(spec));
  if (spec.model().has_din()) {
    RETURN_IF_ERROR(CheckAttention(spec, spec.model().din().attention(), model->name));
  }
  if (spec.model().has_dien()) {
    RETURN_IF_ERROR(CheckAttention(spec, spec.model().dien().attention(), model->name));
  }
  if (spec.model().has_dssm()) RETURN_IF_ERROR(CheckDssm(spec));
  if (spec.model().has_custom()) RETURN_IF_ERROR(CheckCustom(spec));
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
