#include "ps/applied_names.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "ps/checked_bytes.h"

namespace starling {
namespace {

constexpr absl::string_view kMagic = "STLAPPLD";
constexpr uint32_t kVersion = 2;

std::string Describe(const BatchName& name) {
  return absl::StrCat("batch ", name.batch, " of split ", name.split, ", pass ", name.pass);
}

// Adds [first, last) to `set`, joining what it touches.
void AddInterval(std::map<uint64_t, uint64_t>& set, uint64_t first, uint64_t last) {
  auto it = set.upper_bound(first);
  if (it != set.begin() && std::prev(it)->second >= first) --it;
  while (it != set.end() && it->first <= last) {
    first = std::min(first, it->first);
    last = std::max(last, it->second);
    it = set.erase(it);
  }
  set.emplace(first, last);
}

}  // namespace

bool AppliedNames::ContainsLocked(const BatchName& name) const {
  auto split = splits_.find({name.job, name.pass, name.split});
  if (split == splits_.end()) return false;
  auto it = split->second.upper_bound(name.batch);
  return it != split->second.begin() && std::prev(it)->second > name.batch;
}

bool AppliedNames::Contains(const BatchName& name) const {
  std::lock_guard lock(mu_);
  return ContainsLocked(name);
}

int64_t AppliedNames::size() const {
  std::lock_guard lock(mu_);
  int64_t n = 0;
  for (const auto& [split, intervals] : splits_) {
    for (const auto& [first, last] : intervals) n += static_cast<int64_t>(last - first);
  }
  return n;
}

absl::StatusOr<bool> AppliedNames::Begin(const BatchName& name) {
  std::unique_lock lock(mu_);
  finished_.wait(lock, [&] { return !under_way_.contains(name); });
  if (ContainsLocked(name)) return false;
  RETURN_IF_ERROR(MakeRoomLocked(name));
  under_way_.insert(name);
  return true;
}

void AppliedNames::Finish(const BatchName& name, bool applied) {
  {
    std::lock_guard lock(mu_);
    under_way_.erase(name);
    if (applied) {
      AddInterval(splits_[{name.job, name.pass, name.split}], name.batch, uint64_t{name.batch} + 1);
    }
  }
  finished_.notify_all();
}

absl::Status AppliedNames::MakeRoomLocked(const BatchName& name) {
  auto floor = first_pass_.find(name.job);
  if (floor != first_pass_.end() && name.pass < floor->second) {
    return absl::FailedPreconditionError(absl::StrCat(
        Describe(name), " is older than the window of applied names, which starts at pass ",
        floor->second, "; whether it was applied is no longer known"));
  }
  auto split = splits_.find({name.job, name.pass, name.split});
  if (split != splits_.end()) {
    BatchName before = name, after = name;
    --before.batch;
    ++after.batch;
    bool joins = ContainsLocked(before) || ContainsLocked(after);
    if (joins || split->second.size() < intervals_max_) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat(Describe(name), ": the split's batches arrive with ", intervals_max_,
                     " gaps; push them nearly in order"));
  }
  if (splits_.size() < splits_max_) return absl::OkStatus();
  auto oldest = splits_.lower_bound({name.job, 0, 0});
  if (oldest == splits_.end() || oldest->first.job != name.job || oldest->first.pass >= name.pass) {
    return absl::ResourceExhaustedError(
        absl::StrCat(Describe(name), ": one pass has more than ", splits_max_, " splits"));
  }
  uint32_t keep_from = oldest->first.pass + 1;
  first_pass_[name.job] = keep_from;
  splits_.erase(oldest, splits_.lower_bound({name.job, keep_from, 0}));
  return absl::OkStatus();
}

std::string AppliedNames::Encode() const {
  std::lock_guard lock(mu_);
  CheckedWriter out(kMagic, kVersion);
  out.Put<uint64_t>(first_pass_.size());
  for (const auto& [job, pass] : first_pass_) {
    out.Put(job);
    out.Put(pass);
  }
  out.Put<uint64_t>(splits_.size());
  for (const auto& [split, intervals] : splits_) {
    out.Put(split.job);
    out.Put(split.pass);
    out.Put(split.split);
    out.Put<uint32_t>(static_cast<uint32_t>(intervals.size()));
    for (const auto& [first, last] : intervals) {
      out.Put<uint32_t>(static_cast<uint32_t>(first));
      out.Put<uint32_t>(static_cast<uint32_t>(last - 1));
    }
  }
  return std::move(out).Finish();
}

absl::Status AppliedNames::Merge(absl::string_view bytes, const std::string& file) {
  ASSIGN_OR_RETURN(absl::string_view payload, OpenChecked(bytes, kMagic, kVersion, file));
  AppliedNames read;
  RETURN_IF_ERROR(Annotate(read.Decode(payload), file));
  std::lock_guard lock(mu_);
  for (const auto& [job, pass] : read.first_pass_) {
    first_pass_[job] = std::max(first_pass_[job], pass);
  }
  for (const auto& [split, intervals] : read.splits_) {
    for (const auto& [first, last] : intervals) AddInterval(splits_[split], first, last);
  }
  return absl::OkStatus();
}

absl::Status AppliedNames::Decode(absl::string_view payload) {
  CheckedReader in(payload);
  for (uint64_t n = in.Get<uint64_t>(); n > 0 && in.ok(); --n) {
    uint64_t job = in.Get<uint64_t>();
    first_pass_[job] = in.Get<uint32_t>();
  }
  for (uint64_t n = in.Get<uint64_t>(); n > 0 && in.ok(); --n) {
    Split split;
    split.job = in.Get<uint64_t>();
    split.pass = in.Get<uint32_t>();
    split.split = in.Get<uint32_t>();
    for (uint32_t i = in.Get<uint32_t>(); i > 0 && in.ok(); --i) {
      uint64_t first = in.Get<uint32_t>(), last = in.Get<uint32_t>();
      if (last < first) return absl::DataLossError("an interval ends before it begins");
      AddInterval(splits_[split], first, last + 1);
    }
  }
  return in.Finish();
}

}  // namespace starling
