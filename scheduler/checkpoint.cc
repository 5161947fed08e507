#include "scheduler/checkpoint.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status.h"
#include "base/sync_point.h"

namespace starling {
namespace {

constexpr char kPrefix[] = "step-";

std::string NameOf(int64_t step) { return absl::StrFormat("%s%012d", kPrefix, step); }

// Complete checkpoints under `root`, oldest first.
absl::StatusOr<std::vector<std::string>> Complete(const std::string& root) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, ListFileSets(root));
  std::erase_if(names, [](const std::string& n) { return !absl::StartsWith(n, kPrefix); });
  return names;
}

// A directory for a checkpoint of this step that no complete one has.
std::string FreshDir(const std::string& root, int64_t step) {
  std::string dir = JoinPath(root, NameOf(step));
  for (int i = 1; PathExists(JoinPath(dir, "MANIFEST")); ++i) {
    dir = JoinPath(root, absl::StrCat(NameOf(step), ".", i));
  }
  return dir;
}

// Removes old checkpoints, and what killed processes left. Space not given
// back is no reason to fail a run whose newest checkpoint is complete.
void Prune(const std::string& root, const std::string& newest, int keep, int64_t protect_step) {
  absl::StatusOr<std::vector<std::string>> complete = Complete(root);
  absl::StatusOr<std::vector<std::string>> all = ListDir(root);
  if (!complete.ok() || !all.ok()) return;
  size_t kept_from = complete->size() - std::min<size_t>(complete->size(), std::max(keep, 1));
  std::vector<std::string> kept(complete->begin() + kept_from, complete->end());
  for (const std::string& name : *all) {
    bool wanted = std::find(kept.begin(), kept.end(), name) != kept.end() ||
                  absl::StartsWith(name, NameOf(protect_step)) || JoinPath(root, name) == newest;
    if (!absl::StartsWith(name, kPrefix) || wanted) continue;
    // The manifest goes first, so that a kill in between leaves no half of one.
    std::string dir = JoinPath(root, name);
    absl::Status status = RemoveAll(JoinPath(dir, "MANIFEST"));
    if (status.ok()) status = RemoveAll(dir);
    if (!status.ok()) std::fprintf(stderr, "warning: %s\n", std::string(status.message()).c_str());
  }
}

}  // namespace

absl::StatusOr<Checkpoint> OpenCheckpoint(const std::string& dir) {
  Checkpoint checkpoint;
  checkpoint.dir = dir;
  ASSIGN_OR_RETURN(checkpoint.files, OpenFileSet(dir, "checkpoint", &checkpoint.info));
  return checkpoint;
}

absl::StatusOr<Checkpoint> LatestCheckpoint(const std::string& root) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, Complete(root));
  if (names.empty())
    return absl::NotFoundError(absl::StrCat(root, ": holds no complete checkpoint"));
  absl::Status newest;
  for (size_t i = names.size(); i-- > 0;) {
    std::string dir = JoinPath(root, names[i]);
    absl::StatusOr<Checkpoint> checkpoint = OpenCheckpoint(dir);
    absl::Status status =
        checkpoint.ok() ? VerifyFileSet(dir, checkpoint->files) : checkpoint.status();
    if (status.ok()) return checkpoint;
    std::fprintf(stderr, "DAMAGED CHECKPOINT %s: %s\n", dir.c_str(),
                 std::string(status.message()).c_str());
    if (newest.ok()) newest = status;
  }
  return newest;
}

absl::StatusOr<Checkpoint> FindCheckpoint(const std::string& path) {
  if (PathExists(JoinPath(path, "MANIFEST"))) return OpenCheckpoint(path);
  return LatestCheckpoint(path);
}

absl::StatusOr<std::string> WriteCheckpoint(
    const std::string& root, const CheckpointInfo& info, int keep, int64_t protect_step,
    const std::function<absl::StatusOr<std::vector<FileSetEntry>>(const std::string& dir)>&
        write_parts) {
  RETURN_IF_ERROR(MakeDirs(root));
  std::string dir = FreshDir(root, info.state().step());
  auto write = [&]() -> absl::Status {
    RETURN_IF_ERROR(RemoveAll(dir));
    RETURN_IF_ERROR(MakeDirs(dir));
    STARLING_SYNC_POINT("checkpoint:before_parts");
    ASSIGN_OR_RETURN(std::vector<FileSetEntry> files, write_parts(dir));
    STARLING_SYNC_POINT("checkpoint:after_parts");
    return CommitFileSet(dir, "checkpoint", info, files);
  };
  if (absl::Status status = write(); !status.ok()) {
    RemoveAll(dir).IgnoreError();
    return Annotate(status, "checkpoint not written");
  }
  Prune(root, dir, keep, protect_step);
  STARLING_SYNC_POINT("checkpoint:after_prune");
  return dir;
}

}  // namespace starling
