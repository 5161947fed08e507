#include "sample_io/parquet_lists.h"

#include <arrow/status.h>
#include <arrow/type.h>
#include <parquet/column_page.h>
#include <parquet/column_reader.h>
#include <parquet/level_conversion.h>
#include <parquet/schema.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include "sample_io/grow.h"
#include "sample_io/null_gaps.h"
#include "sample_io/parquet_flat.h"
#include "sample_io/parquet_levels.h"
#include "sample_io/parquet_values.h"

namespace starling {
namespace {

constexpr int kBlock = 8192;  // Entries decoded at a time; they stay in the cache.
// Pages whose starts are kept for the next column, and entries of one of them.
constexpr size_t kPagesKept = 4;
constexpr int kEntriesKept = 1 << 17;
// Room made at first: elements a row, and elements in all.
constexpr int64_t kElements = 12, kReserve = 1 << 17;

// Where the rows stand, and which of them and of their elements are null.
struct Lists {
  std::vector<int32_t> offsets;  // The first element of each row, and the end.
  std::vector<uint8_t> valid;    // By element, of members; by row, of lists.
  bool nulls = false;
};

// What a block was decoded into.
template <typename T>
struct Entries {
  std::array<uint8_t, kBlock> definition, repetition;
  std::array<T, kBlock> values;  // Without those of nulls.
};

template <typename T, typename Wide>
class Reading {
 public:
  Reading(const parquet::ColumnDescriptor& leaf, const ListRange& range, RowStarts* starts)
      : leaf_(leaf),
        begin_(range.begin),
        end_(range.begin + range.rows),
        member_(range.member),
        present_(leaf.max_definition_level()),
        element_(parquet::internal::LevelInfo::ComputeLevelInfo(&leaf).repeated_ancestor_def_level),
        starts_(starts),
        values_(ChunkValues::Make(leaf)) {}

  arrow::Status Run(parquet::PageReader& pages, std::vector<Wide>* values, Lists* lists) {
    lists_ = std::move(*lists);
    out_ = values;
    // Most lists have some elements; what a footer claims is not believed.
    values->reserve(static_cast<size_t>(std::min(kReserve, kElements * (end_ - begin_))));
    while (row_ <= end_) {  // The last row may go on.
      const std::shared_ptr<parquet::Page> page = pages.NextPage();
      if (page == nullptr) break;
      if (page->type() == parquet::PageType::DICTIONARY_PAGE) {
        values_->SetDictionary(static_cast<const parquet::DictionaryPage&>(*page));
      } else if (page->type() == parquet::PageType::DATA_PAGE ||
                 page->type() == parquet::PageType::DATA_PAGE_V2) {
        ARROW_RETURN_NOT_OK(TakePage(static_cast<const parquet::DataPage&>(*page)));
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
  arrow::Status TakePage(const parquet::DataPage& page) {
    const int entries = page.num_values();
    if (entries <= 0) return arrow::Status::OK();
    const PageParts parts = SplitPage(page, leaf_);
    repetition_.Start(parts.repetition, parts.old_repetition, leaf_.max_repetition_level(),
                      entries);
    definition_.Start(parts.definition, parts.old_definition, present_, entries);
    values_->Start(page, parts.values);
    RowStarts::Page& rows = starts_->Of(pages_++, parts.repetition, entries);
    const bool known = rows.whole;
    size_t next = 0;
    for (int done = 0; done < entries && row_ <= end_; done += kBlock) {
      const int n = std::min(kBlock, entries - done);
      if (!known) FindStarts(done, n, &rows);
      if (!rows.kept) next = 0;
      const size_t first = next;
      while (next < rows.starts.size() && static_cast<int>(rows.starts[next]) < done + n) ++next;
      ARROW_RETURN_NOT_OK(TakeBlock(done, n, std::span(rows.starts).subspan(first, next - first)));
      rows.whole = rows.kept && done + n == entries;
    }
    return arrow::Status::OK();
  }

  // Adds those of the next n entries, which are the page's from `done` on.
  void FindStarts(int done, int n, RowStarts::Page* rows) {
    uint8_t* levels = memory().repetition.data();
    repetition_.Read(n, levels);
    if (!rows->kept) rows->starts.clear();
    const size_t before = rows->starts.size();
    rows->starts.resize(before + static_cast<size_t>(n));
    uint32_t* out = rows->starts.data() + before;
    for (int i = 0; i < n; ++i) {
      *out = static_cast<uint32_t>(done + i);
      out += levels[i] == 0;
    }
    rows->starts.resize(static_cast<size_t>(out - rows->starts.data()));
  }

  // Entries [done, done + n) of the page, of which `begun` begin a row.
  arrow::Status TakeBlock(int done, int n, std::span<const uint32_t> begun) {
    const uint8_t* definition = memory().definition.data();
    definition_.Read(n, memory().definition.data());
    uint8_t least = std::numeric_limits<uint8_t>::max();
    int present = 0;
    for (int i = 0; i < n; ++i) {
      least = std::min(least, definition[i]);
      present += definition[i] == present_;
    }
    const bool goes_on = begun.empty() || static_cast<int>(begun[0]) != done;
    if (row_ == 0 && goes_on) return arrow::Status::Invalid("a list that begins in no row");
    if (elements_ + n > std::numeric_limits<int32_t>::max()) {
      return arrow::Status::CapacityError("more than 2^31 list elements in one row group");
    }
    // By what is found: a footer may claim any number of rows.
    const int64_t rows_max = std::max<int64_t>(0, row_ - begin_) + std::ssize(begun) + 1;
    GrowTo(elements_ + n, out_);
    GrowTo(rows_max + 1, &lists_.offsets);
    GrowTo(member_ ? elements_ + n : rows_max, &lists_.valid);
    const bool inside = row_ - (goes_on ? 1 : 0) >= begin_ && row_ + std::ssize(begun) <= end_;
    if (inside && least >= element_ && (member_ || least == present_)) {
      TakeFull(done, n, begun, present);
    } else {
      TakeSome(done, n, begun, present);
    }
    return arrow::Status::OK();
  }

  // A block of the range without an empty or null list: every entry is an element.
  void TakeFull(int done, int n, std::span<const uint32_t> begun, int present) {
    const uint8_t* definition = memory().definition.data();
    int32_t* offsets = lists_.offsets.data() + (row_ - begin_);
    for (size_t k = 0; k < begun.size(); ++k) {
      offsets[k] = static_cast<int32_t>(elements_ + begun[k] - done);
    }
    uint8_t* valid = lists_.valid.data() + (member_ ? elements_ : row_ - begin_);
    if (!member_) {
      std::fill_n(valid, begun.size(), 1);
    } else {
      for (int i = 0; i < n; ++i) valid[i] = definition[i] == present_;
      lists_.nulls |= present < n;
    }
    Wide* out = out_->data() + elements_;
    row_ += std::ssize(begun);
    elements_ += n;
    if constexpr (std::is_same_v<T, Wide>) {
      if (present == n) return values_->Read(n, out);
    }
    const T* next = memory().values.data();
    values_->Read(present, memory().values.data());
    if constexpr (sizeof(T) == sizeof(uint64_t)) {
      return SpreadValues(reinterpret_cast<const uint64_t*>(next), definition,
                          static_cast<uint8_t>(present_), static_cast<size_t>(n),
                          reinterpret_cast<uint64_t*>(out));
    }
    for (int i = 0; i < n; ++i) {  // A null takes what stands there: it is never read.
      out[i] = static_cast<Wide>(*next);
      next += definition[i] == present_;
    }
  }

  void TakeSome(int done, int n, std::span<const uint32_t> begun, int present) {
    uint8_t* repetition = memory().repetition.data();
    std::fill_n(repetition, n, 1);
    for (uint32_t start : begun) repetition[start - static_cast<uint32_t>(done)] = 0;
    const uint8_t* definition = memory().definition.data();
    values_->Read(present, memory().values.data());
    const T* next = memory().values.data();
    int64_t starts = std::ssize(begun);
    int from = 0, to = n;
    // Entries of rows before the range, and behind it, are passed over one by one.
    for (; from < n && row_ + (repetition[from] == 0) <= begin_; ++from) {
      row_ += repetition[from] == 0;
      next += definition[from] == present_;
      starts -= repetition[from] == 0;
    }
    for (; row_ + starts > end_; --to) starts -= repetition[to - 1] == 0;
    member_ ? TakeRows<true>(from, to, next) : TakeRows<false>(from, to, next);
    if (to < n) row_ = end_ + 1;  // The one after the last has begun.
  }

  // Entries of the range's rows, without a branch that a processor could guess
  // wrong: what an entry writes that holds nothing, the next one overwrites.
  template <bool kMember>
  void TakeRows(int from, int to, const T* next) {
    const Entries<T>& entries = memory();
    Wide* values = out_->data();
    int32_t* offsets = lists_.offsets.data();
    uint8_t* valid = lists_.valid.data();
    int64_t row = row_ - begin_, element = elements_, nulls = 0;
    for (int i = from; i < to; ++i) {
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

  // Not in the thread's own storage: it would take the room of small threads' stacks.
  static Entries<T>& memory() {
    static thread_local const auto memory = std::make_unique<Entries<T>>();
    return *memory;
  }

  const parquet::ColumnDescriptor& leaf_;
  const int64_t begin_, end_;
  const bool member_;
  const int16_t present_, element_;  // Levels of a value, and of an element, null or not.
  RowStarts* const starts_;
  const std::unique_ptr<ChunkValues> values_;
  LevelReader repetition_, definition_;
  std::vector<Wide>* out_ = nullptr;
  size_t pages_ = 0;
  int64_t row_ = 0;  // Rows begun.
  int64_t elements_ = 0;
  Lists lists_;
};

template <typename T, typename Wide>
arrow::Status ReadAs(parquet::PageReader& pages, const parquet::ColumnDescriptor& leaf,
                     const ListRange& range, RowStarts* starts, std::vector<Wide>* values,
                     Lists* lists) {
  return Reading<T, Wide>(leaf, range, starts).Run(pages, values, lists);
}

arrow::Status ReadAny(parquet::PageReader& pages, const parquet::ColumnDescriptor& leaf,
                      const ListRange& range, RowStarts* starts, Column* column, Lists* lists) {
  auto* ints = &column->ints;
  auto* doubles = &column->doubles;
  switch (leaf.physical_type()) {
    case parquet::Type::INT64:
      return ReadAs<int64_t>(pages, leaf, range, starts, ints, lists);
    case parquet::Type::INT32:
      return ReadAs<int32_t>(pages, leaf, range, starts, ints, lists);
    case parquet::Type::DOUBLE:
      return ReadAs<double>(pages, leaf, range, starts, doubles, lists);
    case parquet::Type::FLOAT:
      return ReadAs<float>(pages, leaf, range, starts, doubles, lists);
    default:
      return arrow::Status::TypeError("not a column of plain numbers");
  }
}

}  // namespace

RowStarts::Page& RowStarts::Of(size_t number, std::span<const uint8_t> levels, int entries) {
  const bool keep = number < kPagesKept && entries <= kEntriesKept;
  if (keep) GrowTo(number + 1, &pages_);
  Page& page = keep ? pages_[number] : other_;
  if (keep && page.whole && page.entries == entries &&
      std::equal(levels.begin(), levels.end(), page.levels.begin(), page.levels.end())) {
    return page;
  }
  page.entries = entries;
  page.kept = keep;
  page.whole = false;
  page.starts.clear();
  page.levels.clear();
  if (keep) page.levels.assign(levels.begin(), levels.end());
  return page;
}

bool IsInOneList(const arrow::DataType& type, const parquet::ColumnDescriptor& column) {
  return column.max_repetition_level() == 1 && IsPlainNumber(type, column);
}

arrow::Status ReadLists(parquet::PageReader& pages, const parquet::ColumnDescriptor& leaf,
                        const ListRange& range, RowStarts* starts, Column* column, int64_t* found) {
  const parquet::Type::type type = leaf.physical_type();
  SetNumbers(type == parquet::Type::INT64 || type == parquet::Type::INT32, column);
  Lists lists;
  lists.valid = std::move(column->valid);
  ARROW_RETURN_NOT_OK(ReadAny(pages, leaf, range, starts, column, &lists));
  *found = std::ssize(lists.offsets) - 1;
  column->valid = lists.nulls ? std::move(lists.valid) : std::vector<uint8_t>();
  column->rows = range.member ? lists.offsets.back() : *found;
  column->is_list = !range.member;
  (range.member ? column->outer_offsets : column->list_offsets) = std::move(lists.offsets);
  return arrow::Status::OK();
}

}  // namespace starling
