#include "scheduler/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status.h"
#include "base/sync_point.h"
#include "base/wrong.h"

namespace starling {
namespace {

constexpr char kPrefix[] = "step-";
constexpr size_t kChainMax = 1000;    // No writer makes a longer one.
constexpr int kVerifyThreadsMax = 4;  // More are seldom faster than a disk.

std::string NameOf(int64_t step) { return absl::StrFormat("%s%012d", kPrefix, step); }
std::string RootOf(const std::string& dir) {
  return std::filesystem::path(dir).lexically_normal().parent_path().string();
}

// Complete checkpoints under `root`, oldest first.
absl::StatusOr<std::vector<std::string>> Complete(const std::string& root) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, ListFileSets(root));
  std::erase_if(names, [](const std::string& n) { return !absl::StartsWith(n, kPrefix); });
  return names;
}

absl::Status OpenBase(const std::string& dir, const CheckpointInfo& info, CheckpointInfo* base,
                      StoredCut* cut) {
  cut->dir = JoinPath(RootOf(dir), info.base());
  absl::StatusOr<uint32_t> crc = ManifestChecksum(cut->dir);
  if (!crc.ok() || *crc != info.base_crc32c() || absl::StrContains(info.base(), '/')) {
    return absl::DataLossError(absl::StrCat(
        dir, ": rests on checkpoint ", info.base(),
        crc.ok() ? ", in whose place there is another" : ", which is missing beside it"));
  }
  ASSIGN_OR_RETURN(cut->files, OpenFileSet(cut->dir, "checkpoint", base));
  return absl::OkStatus();
}

// Adds the checkpoint `name`, and those it rests on as far as can be read.
void AddNeeded(const std::string& root, const std::string& name, std::set<std::string>* needed) {
  CheckpointInfo info;
  info.set_base(name);
  while (!info.base().empty() && needed->insert(info.base()).second) {
    std::string dir = JoinPath(root, info.base());
    info.clear_base();
    if (STARLING_WRONG("base_removed")) return;
    OpenFileSet(dir, "checkpoint", &info).IgnoreError();
  }
}

// Removes old checkpoints, and what killed processes left. Space not given
// back is no reason to fail a run whose newest checkpoint is complete.
void Prune(const std::string& root, const std::string& newest, const Retention& retention) {
  absl::StatusOr<std::vector<std::string>> complete = Complete(root);
  absl::StatusOr<std::vector<std::string>> all = ListDir(root);
  if (!complete.ok() || !all.ok()) return;
  const size_t keep = std::max(retention.keep, 1);
  std::set<std::string> needed;
  AddNeeded(root, newest, &needed);
  for (size_t i = 0; i < complete->size(); ++i) {
    const std::string& name = (*complete)[i];
    if (i + keep >= complete->size() || absl::StartsWith(name, NameOf(retention.protect_step))) {
      AddNeeded(root, name, &needed);
    }
  }
  // The youngest first: none may stand a moment without what it rests on.
  for (auto name = all->rbegin(); name != all->rend(); ++name) {
    if (!absl::StartsWith(*name, kPrefix) || needed.contains(*name)) continue;
    // The manifest goes first, so that a kill in between leaves no half of one.
    std::string dir = JoinPath(root, *name);
    absl::Status status = RemoveAll(JoinPath(dir, "MANIFEST"));
    STARLING_SYNC_POINT("checkpoint:unmade");
    if (status.ok()) status = RemoveAll(dir);
    if (!status.ok()) std::fprintf(stderr, "warning: %s\n", std::string(status.message()).c_str());
  }
}

}  // namespace

absl::StatusOr<Checkpoint> OpenCheckpoint(const std::string& dir) {
  Checkpoint checkpoint;
  checkpoint.dir = dir;
  StoredCut cut{dir, {}};
  ASSIGN_OR_RETURN(cut.files, OpenFileSet(dir, "checkpoint", &checkpoint.info));
  checkpoint.chain.push_back(std::move(cut));
  CheckpointInfo info = checkpoint.info;
  while (info.has_base()) {
    if (checkpoint.chain.size() > kChainMax) {
      return absl::DataLossError(absl::StrCat(dir, ": rests on a chain that does not end"));
    }
    CheckpointInfo base;
    StoredCut below;
    RETURN_IF_ERROR(OpenBase(checkpoint.chain.back().dir, info, &base, &below));
    checkpoint.chain.push_back(std::move(below));
    info = std::move(base);
  }
  std::reverse(checkpoint.chain.begin(), checkpoint.chain.end());
  return checkpoint;
}

absl::Status VerifyCheckpoint(const Checkpoint& checkpoint) {
  const int threads = std::clamp<int>(std::thread::hardware_concurrency(), 1, kVerifyThreadsMax);
  for (const StoredCut& cut : checkpoint.chain) {
    RETURN_IF_ERROR(VerifyFileSet(cut.dir, cut.files, threads));
  }
  return absl::OkStatus();
}

absl::StatusOr<Checkpoint> LatestCheckpoint(const std::string& root, const CheckpointTaker& take) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, Complete(root));
  if (names.empty())
    return absl::NotFoundError(absl::StrCat(root, ": holds no complete checkpoint"));
  absl::Status newest;
  for (size_t i = names.size(); i-- > 0;) {
    std::string dir = JoinPath(root, names[i]);
    absl::StatusOr<Checkpoint> checkpoint = OpenCheckpoint(dir);
    const absl::Status taken = checkpoint.ok() ? take(*checkpoint) : checkpoint.status();
    if (taken.ok()) {
      if (!newest.ok()) std::fprintf(stderr, "FALLING BACK to checkpoint %s\n", dir.c_str());
      return checkpoint;
    }
    // Damage is what the manifest says, not how it showed: a file of another checkpoint may look
    // like that of another job, and a failing scratch disk like damage.
    const absl::Status damage = checkpoint.ok() ? VerifyCheckpoint(*checkpoint) : taken;
    if (damage.ok()) return taken;
    std::fprintf(stderr, "DAMAGED CHECKPOINT %s: %s\n", dir.c_str(),
                 std::string(damage.message()).c_str());
    if (newest.ok()) newest = damage;
  }
  return newest;
}

absl::StatusOr<std::optional<Checkpoint>> CheckpointToResume(const std::string& root, bool resume,
                                                             const CheckpointTaker& take) {
  // Not by the error of the call below: a file that `take` does not find must start nothing anew.
  ASSIGN_OR_RETURN(const std::vector<std::string> names, Complete(root));
  if (names.empty()) return std::nullopt;
  if (resume) return LatestCheckpoint(root, take);
  auto leave = [](const Checkpoint&) { return absl::OkStatus(); };
  ASSIGN_OR_RETURN(const Checkpoint latest, LatestCheckpoint(root, leave));
  return absl::AlreadyExistsError(
      absl::StrCat(root, ": holds checkpoints up to step ", latest.info.state().step(),
                   "; go on from there with --resume, or choose another train.dir"));
}

absl::StatusOr<Checkpoint> FindCheckpoint(const std::string& path, const CheckpointTaker& take) {
  if (!PathExists(JoinPath(path, "MANIFEST"))) return LatestCheckpoint(path, take);
  ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenCheckpoint(path));
  const absl::Status taken = take(checkpoint);
  if (taken.ok()) return checkpoint;
  RETURN_IF_ERROR(VerifyCheckpoint(checkpoint));
  return taken;
}

absl::StatusOr<std::string> NewCheckpointDir(const std::string& root, int64_t step) {
  std::string dir = JoinPath(root, NameOf(step));
  for (int i = 1; PathExists(JoinPath(dir, "MANIFEST")); ++i) {
    dir = JoinPath(root, absl::StrCat(NameOf(step), ".", i));
  }
  RETURN_IF_ERROR(RemoveAll(dir));
  if (absl::Status status = MakeDirs(dir); !status.ok()) {
    RemoveAll(dir).IgnoreError();
    return status;
  }
  STARLING_SYNC_POINT("checkpoint:before_parts");
  return dir;
}

absl::Status FinishCheckpoint(const std::string& dir, const CheckpointInfo& info,
                              const Retention& retention, const PartWriter& write_parts) {
  auto write = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(std::vector<FileSetEntry> files, write_parts());
    STARLING_SYNC_POINT("checkpoint:after_parts");
    return CommitFileSet(dir, "checkpoint", info, files);
  };
  if (absl::Status status = write(); !status.ok()) {
    RemoveAll(dir).IgnoreError();
    return Annotate(status, "checkpoint not written");
  }
  Prune(RootOf(dir), std::filesystem::path(dir).filename().string(), retention);
  STARLING_SYNC_POINT("checkpoint:after_prune");
  return absl::OkStatus();
}

}  // namespace starling
