#include "sample_io/nested.h"

#include <arrow/array.h>
#include <arrow/chunked_array.h>
#include <arrow/type.h>

#include <limits>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sample_io/arrow_columns.h"

namespace starling {
namespace {

using ArrayPtr = std::shared_ptr<arrow::Array>;

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("damaged values: ", what));
}

bool IsList(const arrow::DataType& type) {
  return type.id() == arrow::Type::LIST || type.id() == arrow::Type::LARGE_LIST;
}

void Expand(const NestedField& at, bool in_list, std::vector<NestedField>* out) {
  std::shared_ptr<arrow::DataType> type = at.type;
  const bool list = IsList(*type);
  if (list) type = type->field(0)->type();
  if (type->id() != arrow::Type::STRUCT || (list && in_list)) return out->push_back(at);
  for (const auto& member : type->fields()) {
    NestedField below{absl::StrCat(at.name, ".", member->name()), at.path, member->type()};
    below.path.push_back(member->name());
    Expand(below, in_list || list, out);
  }
}

template <typename ListType>
absl::Status AppendOffsets(const arrow::Array& array, std::vector<int32_t>* offsets) {
  const auto& lists = static_cast<const ListType&>(array);
  if (offsets->empty()) offsets->push_back(0);
  int64_t end = offsets->back();
  for (int64_t i = 0; i < lists.length(); ++i) {
    end += lists.IsNull(i) ? 0 : lists.value_length(i);
    if (end > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError("more than 2^31 list elements in one row group");
    }
    offsets->push_back(static_cast<int32_t>(end));
  }
  return absl::OkStatus();
}

absl::Status Descend(const ArrayPtr& array, std::span<const std::string> path,
                     std::vector<int32_t>* offsets, arrow::ArrayVector* leaves) {
  if (path.empty()) {
    leaves->push_back(array);
    return absl::OkStatus();
  }
  // Offsets are followed here, so all of them are checked first.
  if (auto status = array->ValidateFull(); !status.ok()) return Damaged(status.message());
  arrow::Result<ArrayPtr> below = arrow::Status::Invalid("not a struct");
  if (array->type_id() == arrow::Type::STRUCT) {
    const auto& structs = static_cast<const arrow::StructArray&>(*array);
    const int member = structs.struct_type()->GetFieldIndex(path[0]);
    if (member < 0) return absl::InvalidArgumentError(absl::StrCat("no member ", path[0]));
    below = structs.GetFlattenedField(member);
    path = path.subspan(1);
  } else if (array->type_id() == arrow::Type::LIST) {
    RETURN_IF_ERROR(AppendOffsets<arrow::ListArray>(*array, offsets));
    below = static_cast<const arrow::ListArray&>(*array).Flatten();
  } else if (array->type_id() == arrow::Type::LARGE_LIST) {
    RETURN_IF_ERROR(AppendOffsets<arrow::LargeListArray>(*array, offsets));
    below = static_cast<const arrow::LargeListArray&>(*array).Flatten();
  }
  if (!below.ok()) return Damaged(below.status().message());
  return Descend(*below, path, offsets, leaves);
}

}  // namespace

std::vector<NestedField> ExpandField(const arrow::Field& field) {
  std::vector<NestedField> out;
  Expand({field.name(), {}, field.type()}, /*in_list=*/false, &out);
  return out;
}

absl::Status FromArrowMember(const std::shared_ptr<arrow::ChunkedArray>& values,
                             const std::vector<std::string>& path, Column* column) {
  arrow::ArrayVector chunks = values->chunks();
  if (chunks.empty()) {
    auto empty = arrow::MakeEmptyArray(values->type());
    if (!empty.ok()) return absl::InvalidArgumentError(empty.status().message());
    chunks.push_back(*empty);
  }
  std::vector<int32_t> offsets;
  arrow::ArrayVector leaves;
  for (const ArrayPtr& chunk : chunks) RETURN_IF_ERROR(Descend(chunk, path, &offsets, &leaves));
  const std::shared_ptr<arrow::DataType> type = leaves[0]->type();
  RETURN_IF_ERROR(
      FromArrow(std::make_shared<arrow::ChunkedArray>(std::move(leaves), type), column));
  column->outer_offsets = std::move(offsets);
  return absl::OkStatus();
}

}  // namespace starling
