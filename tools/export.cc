// starling export: a checkpoint as a bundle that `serve` and `predict` read.
#include <gflags/gflags.h>

#include <cstdio>

#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status.h"
#include "dense_net/onnx_export.h"
#include "scheduler/trainer.h"
#include "serving/bundle.h"
#include "tools/flags.h"
#include "tools/job.h"
#include "tools/publish.h"
#include "tools/verbs.h"

DEFINE_string(name, "", "name to serve the model under; default: the job's");
DEFINE_string(onnx, "", "also write the dense part as an ONNX model to this file");
DEFINE_bool(publish, false, "--out is a publication root: add the next version to it");

namespace starling {
namespace {

// The bytes for --onnx; empty without it.
absl::StatusOr<std::string> OnnxOf(LocalModel* model, const std::string& name) {
  if (FLAGS_onnx.empty()) return "";
  std::vector<float> dense(model->network().param_floats());
  RETURN_IF_ERROR(model->store().PullDense(dense));
  return ExportOnnx(model->spec().graph, dense, name);
}

absl::Status Run(const VerbCall& call) {
  if (FLAGS_out.empty())
    return absl::InvalidArgumentError("--out is missing: where to write the bundle?");
  if (FLAGS_checkpoint.empty() == FLAGS_config.empty()) {
    return absl::InvalidArgumentError(
        "give either --config (the job's latest checkpoint) or --checkpoint DIR");
  }
  std::string from = FLAGS_checkpoint;
  if (from.empty()) {
    SourceMap map;
    ASSIGN_OR_RETURN(Plan plan, LoadPlan(FLAGS_config, call.set, &map));
    from = CheckpointRoot(plan.job);
  }
  std::unique_ptr<LocalModel> model;
  auto load = [&](const Checkpoint& found) -> absl::Status {
    model = nullptr;  // First: the scratch directory is the same.
    ASSIGN_OR_RETURN(model, LocalModel::Create(SpecOf(found.info), NetworkOptions(),
                                               absl::StrCat(FLAGS_out, ".scratch"), nullptr));
    return model->Load(found);
  };
  ASSIGN_OR_RETURN(Checkpoint checkpoint, FindCheckpoint(from, load));
  std::string name = FLAGS_name.empty() ? checkpoint.info.job() : FLAGS_name;
  ASSIGN_OR_RETURN(const std::string onnx, OnnxOf(model.get(), name));
  ASSIGN_OR_RETURN(std::string dir, ExportModel(model.get(), checkpoint.info.state(), name,
                                                FLAGS_out, FLAGS_publish));
  if (!onnx.empty()) RETURN_IF_ERROR(WriteFileAtomically(FLAGS_onnx, onnx));
  if (FLAGS_json) {
    absl::PrintF("{\"bundle\": \"%s\", \"step\": %d}\n", dir.c_str(),
                 checkpoint.info.state().step());
  }
  absl::FPrintF(stderr, "exported %s (step %d) to %s\n", checkpoint.dir.c_str(),
                checkpoint.info.state().step(), dir.c_str());
  return absl::OkStatus();
}

}  // namespace

Verb ExportVerb() {
  return {
      "export",
      "Export a checkpoint as a bundle to serve",
      "starling export (--config job.yaml | --checkpoint DIR) --out DIR [--publish] [--name NAME] "
      "[--onnx FILE]",
      {"config", "set", "checkpoint", "out", "name", "publish", "onnx", "json"},
      Run};
}

}  // namespace starling
