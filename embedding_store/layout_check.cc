#include "embedding_store/layout_check.h"

#include "base/optimizer.h"
#include "base/status.h"
#include "embedding_store/multi_hash.h"

namespace starling {
namespace {

absl::Status CheckSegment(const std::string& where, const SegmentSpec& file,
                          const SegmentSpec& mine) {
  std::string name = absl::StrCat(where, ": segment ", mine.name());
  auto differ = [&](const char* what, const auto& a, const auto& b) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, ": ", what, " is ", a, " in the file and ", b, " here"));
  };
  if (file.name() != mine.name()) return differ("name", file.name(), mine.name());
  if (file.dim() != mine.dim()) return differ("dim", file.dim(), mine.dim());
  if (file.optimizer().rule_case() != mine.optimizer().rule_case()) {
    return differ("optimizer", OptimizerName(file.optimizer()), OptimizerName(mine.optimizer()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLayout(const std::string& path, const RowFileHeader& header,
                         const TableSpec& spec, const RowLayout& layout) {
  const std::string where = absl::StrCat(path, ": table ", spec.options().name());
  auto refuse = [&where](const std::string& what) {
    return absl::FailedPreconditionError(absl::StrCat(where, ": ", what));
  };
  if (header.spec.options().name() != spec.options().name()) {
    return refuse(absl::StrCat("the file holds table ", header.spec.options().name()));
  }
  RETURN_IF_ERROR(SameMultiHash(where, header.spec.options(), spec.options()));
  if (header.spec.segments_size() != spec.segments_size()) {
    return refuse(absl::StrCat("the file's rows have ", header.spec.segments_size(),
                               " segments, the table's ", spec.segments_size()));
  }
  for (int i = 0; i < spec.segments_size(); ++i) {
    RETURN_IF_ERROR(CheckSegment(where, header.spec.segments(i), spec.segments(i)));
  }
  if (header.width != layout.width() || header.state_size != layout.state_size()) {
    return refuse(absl::StrCat("the file's rows have ", header.width, " weights and ",
                               header.state_size, " floats of optimizer state, the table's ",
                               layout.width(), " and ", layout.state_size()));
  }
  return absl::OkStatus();
}

}  // namespace starling
