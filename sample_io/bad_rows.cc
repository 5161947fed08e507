#include "sample_io/bad_rows.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status.h"

namespace starling {
namespace {
constexpr int64_t kRowsBeforeJudging = 1000;
}

BadRows::BadRows(double share_max, const std::string& quarantine,
                 const std::vector<std::string>& columns)
    : share_max_(share_max),
      quarantine_(quarantine.empty() ? nullptr : Quarantine::Create(quarantine, columns)) {}

absl::Status BadRows::Add(int64_t seen, std::vector<QuarantinedRow> bad) {
  seen_ += seen;
  count_ += static_cast<int64_t>(bad.size());
  for (const QuarantinedRow& row : bad) {
    Tally& tally = by_column_[row.column];
    if (tally.count++ > 0) continue;
    tally.first = absl::StrCat(row.reason, " in ", row.file, ", row group ", row.row_group,
                               ", row ", row.row);
  }
  if (quarantine_ != nullptr && !bad.empty()) RETURN_IF_ERROR(quarantine_->Add(std::move(bad)));
  return seen_ < kRowsBeforeJudging ? absl::OkStatus() : CheckShare();
}

absl::Status BadRows::Finish() {
  RETURN_IF_ERROR(Close());
  return CheckShare();
}

absl::Status BadRows::Close() {
  if (quarantine_ == nullptr || std::exchange(closed_, true)) return absl::OkStatus();
  return quarantine_->Close();
}

absl::Status BadRows::CheckShare() const {
  const double share = seen_ == 0 ? 0 : static_cast<double>(count_) / static_cast<double>(seen_);
  if (share <= share_max_) return absl::OkStatus();
  auto worst = std::max_element(
      by_column_.begin(), by_column_.end(),
      [](const auto& a, const auto& b) { return a.second.count < b.second.count; });
  return absl::FailedPreconditionError(absl::StrFormat(
      "%d of %d rows (%.4g %%) cannot be used, more than bad_rows_max = %.4g %%. The worst column "
      "is "
      "%s with %.4g %% of the rows; the first: %s. Mend the data, or raise bad_rows_max%s",
      count_, seen_, 100 * share, 100 * share_max_, worst->first,
      100.0 * static_cast<double>(worst->second.count) / static_cast<double>(seen_),
      worst->second.first,
      quarantine_ == nullptr ? "" : absl::StrCat("; the rows are kept in ", quarantine_->path())));
}

}  // namespace starling
