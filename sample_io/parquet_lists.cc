#include "sample_io/parquet_lists.h"

#include <arrow/status.h>
#include <arrow/type.h>
#include <parquet/column_reader.h>
#include <parquet/level_conversion.h>
#include <parquet/schema.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <utility>

#include "sample_io/grow.h"
#include "sample_io/parquet_flat.h"

namespace starling {
namespace {

constexpr int64_t kEntries = 4096;  // Decoded at a time; they stay in the cache.

// Where the rows stand, and which of them and of their elements are null.
struct Lists {
  std::vector<int32_t> offsets;  // The first element of each row, and the end.
  std::vector<uint8_t> valid;    // By element, of members; by row, of lists.
  bool nulls = false;
};

// One level each of an entry: a value, a null, or an empty or null list.
template <typename T>
struct Entries {
  std::array<int16_t, kEntries> definition, repetition;
  std::array<T, kEntries> values;  // Without those of nulls.
};

template <typename Type, typename Wide, typename T = typename Type::c_type>
class Reading {
 public:
  Reading(parquet::ColumnReader& reader, int64_t begin, int64_t rows, bool member)
      : reader_(static_cast<parquet::TypedColumnReader<Type>&>(reader)),
        begin_(begin),
        end_(begin + rows),
        member_(member),
        present_(reader.descr()->max_definition_level()),
        element_(parquet::internal::LevelInfo::ComputeLevelInfo(reader.descr())
                     .repeated_ancestor_def_level) {}

  arrow::Status Run(std::vector<Wide>* values, Lists* lists) {
    // Not in the thread's own storage: it would take the room of small threads' stacks.
    static thread_local const auto memory = std::make_unique<Entries<T>>();
    Entries<T>& entries = *memory;
    while (row_ <= end_ && reader_.HasNext()) {  // The last row may go on.
      int64_t found = 0;
      const int64_t n = reader_.ReadBatch(kEntries, entries.definition.data(),
                                          entries.repetition.data(), entries.values.data(), &found);
      if (n <= 0) break;
      GrowTo(elements_ + n, values);
      // By what is found: a footer may claim any number of rows.
      const int64_t rows_max = std::max<int64_t>(0, row_ - begin_) + n;
      GrowTo(rows_max + 1, &lists_.offsets);
      GrowTo(member_ ? elements_ + n : rows_max + 1, &lists_.valid);
      ARROW_RETURN_NOT_OK(Take(entries, n, values->data()));
      if (elements_ > std::numeric_limits<int32_t>::max()) {
        return arrow::Status::CapacityError("more than 2^31 list elements in one row group");
      }
    }
    values->resize(elements_);
    const int64_t rows = std::max<int64_t>(0, std::min(row_, end_) - begin_);
    lists_.offsets.resize(rows + 1);
    lists_.offsets[rows] = static_cast<int32_t>(elements_);
    lists_.valid.resize(member_ ? elements_ : rows);
    *lists = std::move(lists_);
    return arrow::Status::OK();
  }

 private:
  arrow::Status Take(const Entries<T>& entries, int64_t n, Wide* values) {
    if (row_ == 0 && entries.repetition[0] != 0) {
      return arrow::Status::Invalid("a list that begins in no row");
    }
    int64_t starts = 0;
    for (int64_t i = 0; i < n; ++i) starts += entries.repetition[i] == 0;
    const T* next = entries.values.data();
    int64_t from = 0, to = n;
    // Entries of rows before the range, and behind it, are passed over one by one.
    for (; from < n && row_ + (entries.repetition[from] == 0) <= begin_; ++from) {
      row_ += entries.repetition[from] == 0;
      next += entries.definition[from] == present_;
      starts -= entries.repetition[from] == 0;
    }
    for (; row_ + starts > end_; --to) starts -= entries.repetition[to - 1] == 0;
    member_ ? TakeRows<true>(entries, from, to, next, values)
            : TakeRows<false>(entries, from, to, next, values);
    if (to < n) row_ = end_ + 1;  // The one after the last has begun.
    return arrow::Status::OK();
  }

  // Entries of the range's rows, without a branch that a processor could guess
  // wrong: what an entry writes that holds nothing, the next one overwrites.
  template <bool kMember>
  void TakeRows(const Entries<T>& entries, int64_t from, int64_t to, const T* next, Wide* values) {
    int32_t* offsets = lists_.offsets.data();
    uint8_t* valid = lists_.valid.data();
    int64_t row = row_ - begin_, element = elements_, nulls = 0;
    for (int64_t i = from; i < to; ++i) {
      const int16_t definition = entries.definition[i];
      const bool starts = entries.repetition[i] == 0, is = definition == present_;
      // A null of a list is dropped, one of a member stands in its place.
      const bool holds = kMember ? definition >= element_ : is;
      // An empty list is one level below its elements, and a null one below that.
      const bool null = kMember ? holds && !is : definition < element_ - 1;
      offsets[row] = static_cast<int32_t>(element);
      valid[kMember ? element : row] = kMember ? is : !null;
      nulls += null && (kMember || starts);
      values[element] = static_cast<Wide>(*next);
      row += starts;
      element += holds;
      next += is;
    }
    row_ = row + begin_;
    elements_ = element;
    lists_.nulls |= nulls > 0;
  }

  parquet::TypedColumnReader<Type>& reader_;
  const int64_t begin_, end_;
  const bool member_;
  const int16_t present_, element_;  // Levels of a value, and of an element, null or not.
  int64_t row_ = 0;                  // Rows begun.
  int64_t elements_ = 0;
  Lists lists_;
};

template <typename Type, typename Wide>
arrow::Status ReadAs(parquet::ColumnReader& reader, int64_t begin, int64_t rows, bool member,
                     std::vector<Wide>* values, Lists* lists) {
  return Reading<Type, Wide>(reader, begin, rows, member).Run(values, lists);
}

arrow::Status ReadAny(parquet::ColumnReader& reader, int64_t begin, int64_t rows, bool member,
                      Column* column, Lists* lists) {
  switch (reader.type()) {
    case parquet::Type::INT64:
      return ReadAs<parquet::Int64Type>(reader, begin, rows, member, &column->ints, lists);
    case parquet::Type::INT32:
      return ReadAs<parquet::Int32Type>(reader, begin, rows, member, &column->ints, lists);
    case parquet::Type::DOUBLE:
      return ReadAs<parquet::DoubleType>(reader, begin, rows, member, &column->doubles, lists);
    case parquet::Type::FLOAT:
      return ReadAs<parquet::FloatType>(reader, begin, rows, member, &column->doubles, lists);
    default:
      return arrow::Status::TypeError("not a column of plain numbers");
  }
}

}  // namespace

bool IsInOneList(const arrow::DataType& type, const parquet::ColumnDescriptor& column) {
  return column.max_repetition_level() == 1 && IsPlainNumber(type, column);
}

arrow::Status ReadLists(parquet::ColumnReader& reader, int64_t begin, int64_t rows, bool member,
                        Column* column, int64_t* found) {
  SetNumbers(reader, column);
  Lists lists;
  ARROW_RETURN_NOT_OK(ReadAny(reader, begin, rows, member, column, &lists));
  *found = std::ssize(lists.offsets) - 1;
  if (lists.nulls) column->valid = std::move(lists.valid);
  column->rows = member ? lists.offsets.back() : *found;
  column->is_list = !member;
  (member ? column->outer_offsets : column->list_offsets) = std::move(lists.offsets);
  return arrow::Status::OK();
}

}  // namespace starling
