#include "tools/publish.h"

#include <vector>

#include "base/file.h"
#include "base/file_set.h"
#include "base/status.h"
#include "serving/bundle.h"

namespace starling {
namespace {

// Of the newest version under `root`; version 0 of step -1 if there is none.
absl::StatusOr<BundleInfo> Newest(const std::string& root) {
  BundleInfo info;
  info.set_step(-1);
  absl::StatusOr<std::string> current = FindBundle(root);
  if (absl::IsNotFound(current.status())) return info;
  RETURN_IF_ERROR(current.status());
  RETURN_IF_ERROR(OpenFileSet(*current, "bundle", &info).status());
  return info;
}

}  // namespace

absl::StatusOr<std::string> ExportModel(LocalModel* model, const TrainerState& state,
                                        const std::string& name, const std::string& out,
                                        bool publish, const std::function<absl::Status()>& ready) {
  BundleSpec spec;
  spec.info.set_model(name);
  spec.info.set_version(1);
  spec.info.set_step(state.step());
  spec.info.set_event_time(state.event_time());
  spec.features = model->spec().features;
  spec.tables = model->spec().tables;
  spec.graph = model->spec().graph;
  std::string dir = out;
  if (publish) {
    ASSIGN_OR_RETURN(const BundleInfo newest, Newest(out));
    spec.info.set_version(newest.version() + 1);
    dir = BundleVersionDir(out, spec.info.version());
  }
  std::vector<float> dense(model->network().param_floats());
  RETURN_IF_ERROR(model->store().PullDense(dense));
  const int tables = model->store().tables();
  if (tables == 0 && ready != nullptr) RETURN_IF_ERROR(ready());
  RETURN_IF_ERROR(WriteBundle(
      dir, spec, dense, [&](int t, const std::function<absl::Status(const RowRecord&)>& emit) {
        absl::Status status;
        RETURN_IF_ERROR(model->store().table(t).ForEach(
            [&](uint64_t id, const RowMeta& meta, std::span<const float> floats) {
              // Epochs count this process's snapshots: no part of the model.
              if (status.ok())
                status = emit({id, {meta.event_time, meta.frequency, 0}, false, floats});
            }));
        // The manifest comes after the last table.
        if (status.ok() && t == tables - 1 && ready != nullptr) status = ready();
        return status;
      }));
  return dir;
}

absl::StatusOr<int64_t> PublishedStep(const std::string& root) {
  ASSIGN_OR_RETURN(const BundleInfo newest, Newest(root));
  return newest.step();
}

}  // namespace starling
