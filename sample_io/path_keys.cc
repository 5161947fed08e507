#include "sample_io/path_keys.h"

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "sample_io/arrow_reading.h"
#include "sample_io/file_list.h"

namespace starling {
namespace {

constexpr absl::string_view kHiveNull = "__HIVE_DEFAULT_PARTITION__";

bool AllDigits(const std::string& text) {
  int64_t ignored;
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(text, &ignored);
}

}  // namespace

absl::StatusOr<PathKeys> PathKeys::Create(const std::vector<std::string>& paths,
                                          const std::vector<SampleFile::Field>& stored) {
  PathKeys out;
  for (const std::string& path : paths) {
    auto& keys = out.keys_.emplace_back();
    for (auto& [key, value] : HiveKeys(path)) keys[key] = value;
  }
  for (const auto& [key, value] : out.keys_[0]) {
    if (FieldNamed(stored, key) == nullptr) out.is_int_[key] = true;
  }
  for (size_t i = 0; i < paths.size(); ++i) {
    for (auto& [key, is_int] : out.is_int_) {
      auto found = out.keys_[i].find(key);
      if (found == out.keys_[i].end()) {
        return absl::FailedPreconditionError(
            absl::StrCat(paths[i], ": its path has no ", key, "=…, but that of ", paths[0],
                         " has; name directories partitioned alike"));
      }
      is_int = is_int && (found->second == kHiveNull || AllDigits(found->second));
    }
  }
  return out;
}

Column PathKeys::ColumnOf(size_t path, const std::string& name, int64_t rows) const {
  const std::string& value = keys_[path].at(name);
  const bool is_int = is_int_.at(name);
  Column column;
  column.name = name;
  column.rows = rows;
  column.type = is_int ? ColumnType::kInt64 : ColumnType::kString;
  if (value == kHiveNull) column.valid.assign(rows, 0);
  int64_t number = 0;
  if (is_int && value != kHiveNull && !absl::SimpleAtoi(value, &number)) number = 0;
  if (is_int) column.ints.assign(rows, number);
  if (!is_int) {
    auto text = std::make_shared<const std::string>(value);
    column.strings.assign(rows, *text);
    column.owner = text;
  }
  return column;
}

}  // namespace starling
