#include "sample_io/arrow_columns.h"

#include <arrow/array.h>
#include <arrow/chunked_array.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>
#include <arrow/util/decimal.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace starling {
namespace {

absl::Status Append(const arrow::Array& array, Column* column);

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("damaged values: ", what));
}

// Null rows are marked once one is met: a column without nulls has no marks.
void AppendValid(const arrow::Array& array, Column* column) {
  if (array.null_count() == 0 && column->valid.empty()) return;
  column->valid.resize(column->rows, 1);
  for (int64_t i = 0; i < array.length(); ++i) column->valid.push_back(array.IsValid(i));
}

absl::Status SetType(ColumnType type, Column* column) {
  column->type = type;
  return absl::OkStatus();
}

int64_t FloorDivide(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// `unit` is the number of array units a second; 0: plain integers.
template <typename ArrayType>
absl::Status AppendInts(const arrow::Array& array, int64_t unit, Column* column) {
  const auto& typed = static_cast<const ArrayType&>(array);
  column->ints.reserve(column->ints.size() + array.length());
  for (int64_t i = 0; i < array.length(); ++i) {
    int64_t value = static_cast<int64_t>(typed.Value(i));
    column->ints.push_back(unit > 1 ? FloorDivide(value, unit) : value);
  }
  return SetType(ColumnType::kInt64, column);
}

absl::Status AppendDays(const arrow::Array& array, Column* column) {
  const auto& typed = static_cast<const arrow::Date32Array&>(array);
  for (int64_t i = 0; i < array.length(); ++i) {
    column->ints.push_back(static_cast<int64_t>(typed.Value(i)) * 86400);
  }
  return SetType(ColumnType::kInt64, column);
}

template <typename ArrayType>
absl::Status AppendFloats(const arrow::Array& array, Column* column) {
  const auto& typed = static_cast<const ArrayType&>(array);
  column->doubles.insert(column->doubles.end(), typed.raw_values(),
                         typed.raw_values() + array.length());
  return SetType(ColumnType::kDouble, column);
}

template <typename Decimal, typename ArrayType>
absl::Status AppendDecimals(const arrow::Array& array, Column* column) {
  const auto& typed = static_cast<const ArrayType&>(array);
  int32_t scale = static_cast<const arrow::DecimalType&>(*array.type()).scale();
  for (int64_t i = 0; i < array.length(); ++i) {
    column->doubles.push_back(typed.IsNull(i) ? 0 : Decimal(typed.GetValue(i)).ToDouble(scale));
  }
  return SetType(ColumnType::kDouble, column);
}

// Binary arrays with offsets. Validate() has checked the last offset alone.
template <typename ArrayType>
absl::Status AppendStrings(const arrow::Array& array, Column* column) {
  const auto& typed = static_cast<const ArrayType&>(array);
  const int64_t bytes = typed.value_data() == nullptr ? 0 : typed.value_data()->size();
  column->strings.reserve(column->strings.size() + array.length());
  for (int64_t i = 0; i < array.length(); ++i) {
    int64_t begin = typed.value_offset(i), end = typed.value_offset(i + 1);
    if (begin < 0 || begin > end || end > bytes) return Damaged("string offsets");
    const char* data = reinterpret_cast<const char*>(typed.raw_data());
    column->strings.push_back(begin == end ? absl::string_view()
                                           : absl::string_view(data + begin, end - begin));
  }
  return SetType(ColumnType::kString, column);
}

template <typename ArrayType>
absl::Status AppendViews(const arrow::Array& array, Column* column) {
  if (!array.ValidateFull().ok()) return Damaged("string views");
  const auto& typed = static_cast<const ArrayType&>(array);
  for (int64_t i = 0; i < array.length(); ++i) {
    std::string_view view = typed.IsNull(i) ? std::string_view() : typed.GetView(i);
    column->strings.emplace_back(view.data(), view.size());
  }
  return SetType(ColumnType::kString, column);
}

void AppendElement(const Column& from, int64_t i, Column* column) {
  switch (from.type) {
    case ColumnType::kInt64:
      return column->ints.push_back(from.ints[i]);
    case ColumnType::kDouble:
      return column->doubles.push_back(from.doubles[i]);
    case ColumnType::kString:
      return column->strings.push_back(from.strings[i]);
  }
}

size_t ValueCount(const Column& column) {
  return column.type == ColumnType::kInt64    ? column.ints.size()
         : column.type == ColumnType::kDouble ? column.doubles.size()
                                              : column.strings.size();
}

template <typename ArrayType>
absl::Status AppendLists(const arrow::Array& array, Column* column) {
  const auto& lists = static_cast<const ArrayType&>(array);
  Column child;
  RETURN_IF_ERROR(Append(*lists.values(), &child));
  if (child.is_list) return absl::InvalidArgumentError("a list of lists");
  column->type = child.type;
  column->is_list = true;
  if (column->list_offsets.empty()) column->list_offsets.push_back(0);
  for (int64_t i = 0; i < lists.length(); ++i) {
    int64_t begin = lists.value_offset(i), end = lists.value_offset(i + 1);
    if (begin < 0 || begin > end || end > child.rows) return Damaged("list offsets");
    if (lists.IsNull(i)) end = begin;
    for (int64_t j = begin; j < end; ++j) {
      if (!child.IsNull(j)) AppendElement(child, j, column);
    }
    if (ValueCount(*column) > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError("more than 2^31 list elements in one row group");
    }
    column->list_offsets.push_back(static_cast<int32_t>(ValueCount(*column)));
  }
  return absl::OkStatus();
}

// Adds entry i of `from`, which is not null, as one more entry. A list's offsets
// begin with 0 already.
void AppendEntry(const Column& from, int64_t i, Column* column) {
  ++column->rows;
  if (!from.is_list) return AppendElement(from, i, column);
  const ValueRange range = ValuesOf(from, i);
  for (int64_t j = range.begin; j < range.end; ++j) {
    AppendElement(from, j, column);
    if (from.items != nullptr) AppendEntry(*from.items, j, column->items.get());
  }
  column->list_offsets.push_back(static_cast<int32_t>(ValueCount(*column)));
}

// An empty column of the same type, for AppendEntry.
std::shared_ptr<Column> EmptyLike(const Column& from) {
  auto column = std::make_shared<Column>();
  column->type = from.type;
  column->is_list = from.is_list;
  if (from.is_list) column->list_offsets.push_back(0);
  if (from.items != nullptr) column->items = EmptyLike(*from.items);
  return column;
}

absl::Status AppendMaps(const arrow::Array& array, Column* column) {
  const auto& maps = static_cast<const arrow::MapArray&>(array);
  Column keys, items;
  RETURN_IF_ERROR(Append(*maps.keys(), &keys));
  RETURN_IF_ERROR(Append(*maps.items(), &items));
  if (keys.is_list || keys.type == ColumnType::kDouble) {
    return absl::InvalidArgumentError("a map whose keys are neither integers nor strings");
  }
  if (items.is_list && items.items == nullptr) return absl::InvalidArgumentError("a map of lists");
  if (items.items != nullptr && items.items->items != nullptr) {
    return absl::InvalidArgumentError("a map of maps of maps");
  }
  column->type = keys.type;
  column->is_list = true;
  if (column->list_offsets.empty()) column->list_offsets.push_back(0);
  if (column->items == nullptr) column->items = EmptyLike(items);
  Column* kept = column->items.get();
  for (int64_t i = 0; i < maps.length(); ++i) {
    int64_t begin = maps.value_offset(i), end = maps.value_offset(i + 1);
    if (begin < 0 || begin > end || end > keys.rows || end > items.rows)
      return Damaged("map offsets");
    if (maps.IsNull(i)) end = begin;
    for (int64_t j = begin; j < end; ++j) {
      if (keys.IsNull(j) || items.IsNull(j)) continue;
      AppendElement(keys, j, column);
      AppendEntry(items, j, kept);
    }
    if (std::max(ValueCount(*column), ValueCount(*kept)) > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError("more than 2^31 map entries in one row group");
    }
    column->list_offsets.push_back(static_cast<int32_t>(ValueCount(*column)));
  }
  return absl::OkStatus();
}

// Dictionary-encoded values are written out. A null may stand in the indices
// or in the dictionary.
absl::Status AppendDictionary(const arrow::Array& array, Column* column) {
  const auto& encoded = static_cast<const arrow::DictionaryArray&>(array);
  Column dictionary, indices;
  RETURN_IF_ERROR(Append(*encoded.dictionary(), &dictionary));
  RETURN_IF_ERROR(Append(*encoded.indices(), &indices));
  if (dictionary.is_list) return absl::InvalidArgumentError("a dictionary of lists");
  column->type = dictionary.type;
  bool marked = !column->valid.empty();
  for (int64_t i = 0; i < array.length(); ++i) {
    int64_t index = indices.ints[i];
    bool null = encoded.IsNull(i);
    if (!null && (index < 0 || index >= dictionary.rows)) return Damaged("dictionary indices");
    null = null || dictionary.IsNull(index);
    if (null && !marked) column->valid.resize(column->rows + i, 1);
    marked = marked || null;
    if (marked) column->valid.push_back(!null);
    if (null) {
      column->ints.resize(column->ints.size() + (column->type == ColumnType::kInt64));
      column->doubles.resize(column->doubles.size() + (column->type == ColumnType::kDouble));
      column->strings.resize(column->strings.size() + (column->type == ColumnType::kString));
    } else {
      AppendElement(dictionary, index, column);
    }
  }
  return absl::OkStatus();
}

absl::Status AppendNulls(const arrow::Array& array, Column* column) {
  column->valid.resize(column->rows + array.length(), 0);
  column->ints.resize(column->ints.size() + array.length());
  return SetType(ColumnType::kInt64, column);
}

int64_t UnitsPerSecond(arrow::TimeUnit::type unit) {
  switch (unit) {
    case arrow::TimeUnit::SECOND:
      return 1;
    case arrow::TimeUnit::MILLI:
      return 1'000;
    case arrow::TimeUnit::MICRO:
      return 1'000'000;
    case arrow::TimeUnit::NANO:
      return 1'000'000'000;
  }
  return 1;
}

absl::Status AppendValues(const arrow::Array& array, Column* column) {
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      return AppendInts<arrow::BooleanArray>(array, 0, column);
    case arrow::Type::INT8:
      return AppendInts<arrow::Int8Array>(array, 0, column);
    case arrow::Type::INT16:
      return AppendInts<arrow::Int16Array>(array, 0, column);
    case arrow::Type::INT32:
      return AppendInts<arrow::Int32Array>(array, 0, column);
    case arrow::Type::INT64:
      return AppendInts<arrow::Int64Array>(array, 0, column);
    case arrow::Type::UINT8:
      return AppendInts<arrow::UInt8Array>(array, 0, column);
    case arrow::Type::UINT16:
      return AppendInts<arrow::UInt16Array>(array, 0, column);
    case arrow::Type::UINT32:
      return AppendInts<arrow::UInt32Array>(array, 0, column);
    case arrow::Type::UINT64:
      return AppendInts<arrow::UInt64Array>(array, 0, column);
    case arrow::Type::DATE32:
      return AppendDays(array, column);
    case arrow::Type::DATE64:
      return AppendInts<arrow::Date64Array>(array, 1000, column);
    case arrow::Type::TIMESTAMP:
      return AppendInts<arrow::TimestampArray>(
          array, UnitsPerSecond(static_cast<const arrow::TimestampType&>(*array.type()).unit()),
          column);
    case arrow::Type::FLOAT:
      return AppendFloats<arrow::FloatArray>(array, column);
    case arrow::Type::DOUBLE:
      return AppendFloats<arrow::DoubleArray>(array, column);
    case arrow::Type::DECIMAL128:
      return AppendDecimals<arrow::Decimal128, arrow::Decimal128Array>(array, column);
    case arrow::Type::DECIMAL256:
      return AppendDecimals<arrow::Decimal256, arrow::Decimal256Array>(array, column);
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return AppendStrings<arrow::BinaryArray>(array, column);
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return AppendStrings<arrow::LargeBinaryArray>(array, column);
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return AppendViews<arrow::BinaryViewArray>(array, column);
    case arrow::Type::FIXED_SIZE_BINARY:
      return AppendViews<arrow::FixedSizeBinaryArray>(array, column);
    case arrow::Type::LIST:
      return AppendLists<arrow::ListArray>(array, column);
    case arrow::Type::LARGE_LIST:
      return AppendLists<arrow::LargeListArray>(array, column);
    case arrow::Type::FIXED_SIZE_LIST:
      return AppendLists<arrow::FixedSizeListArray>(array, column);
    case arrow::Type::MAP:
      return AppendMaps(array, column);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("type ", array.type()->ToString(), " is not supported"));
  }
}

// `column->rows` counts the rows appended before.
absl::Status Append(const arrow::Array& array, Column* column) {
  if (auto status = array.Validate(); !status.ok()) return Damaged(status.message());
  if (array.type_id() == arrow::Type::NA) {
    RETURN_IF_ERROR(AppendNulls(array, column));
  } else if (array.type_id() == arrow::Type::DICTIONARY) {
    RETURN_IF_ERROR(AppendDictionary(array, column));
  } else {
    RETURN_IF_ERROR(AppendValues(array, column));
    AppendValid(array, column);
  }
  column->rows += array.length();
  return absl::OkStatus();
}

bool HasStrings(const Column& column) {
  return column.type == ColumnType::kString ||
         (column.items != nullptr && HasStrings(*column.items));
}

}  // namespace

absl::Status FromArrow(const std::shared_ptr<arrow::ChunkedArray>& values, Column* column) {
  std::string name = std::move(column->name);
  *column = Column();
  column->name = std::move(name);
  for (const auto& chunk : values->chunks()) RETURN_IF_ERROR(Append(*chunk, column));
  if (HasStrings(*column)) column->owner = values;
  if (values->num_chunks() > 0) return absl::OkStatus();
  auto empty = arrow::MakeEmptyArray(values->type());
  if (!empty.ok()) return absl::InvalidArgumentError(empty.status().message());
  return Append(**empty, column);
}

}  // namespace starling
