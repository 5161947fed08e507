#include "sample_io/parquet_flat.h"

#include <arrow/status.h>
#include <arrow/type.h>
#include <parquet/column_page.h>
#include <parquet/column_reader.h>
#include <parquet/schema.h>

#include <algorithm>
#include <array>
#include <memory>
#include <type_traits>

#include "sample_io/null_gaps.h"
#include "sample_io/parquet_levels.h"
#include "sample_io/parquet_values.h"

namespace starling {
namespace {

constexpr int kBlock = 8192;                // Rows decoded at a time; they stay in the cache.
constexpr int64_t kRowsBelieved = 1 << 20;  // Room is made for so many before one is found.

// What a block was decoded into.
template <typename T>
struct Block {
  std::array<uint8_t, kBlock> levels;
  std::array<T, kBlock> values;  // Without those of nulls.
};

template <typename T, typename Wide>
class Reading {
 public:
  Reading(const parquet::ColumnDescriptor& leaf, const FlatRange& range, std::vector<Wide>* values,
          std::vector<uint8_t>* valid)
      : leaf_(leaf),
        range_(range),
        present_(leaf.max_definition_level()),
        out_(values),
        valid_(valid),
        values_(ChunkValues::Make(leaf)) {}

  // Returns the rows found.
  int64_t Run(parquet::PageReader& pages) {
    Grow(std::min(range_.rows, kRowsBelieved));
    while (found_ < range_.rows) {
      const std::shared_ptr<parquet::Page> page = pages.NextPage();
      if (page == nullptr) break;
      if (page->type() == parquet::PageType::DICTIONARY_PAGE) {
        values_->SetDictionary(static_cast<const parquet::DictionaryPage&>(*page));
      } else if (page->type() == parquet::PageType::DATA_PAGE ||
                 page->type() == parquet::PageType::DATA_PAGE_V2) {
        TakePage(static_cast<const parquet::DataPage&>(*page));
      }
    }
    out_->resize(found_);
    if (!valid_->empty()) valid_->resize(found_);
    return found_;
  }

 private:
  void TakePage(const parquet::DataPage& page) {
    if (row_ < 0) row_ = *range_.skipped;
    const PageParts parts = SplitPage(page, leaf_);
    const int rows = page.num_values();
    definition_.Start(parts.definition, parts.old_definition, present_, rows);
    values_->Start(page, parts.values);
    for (int done = 0; done < rows && found_ < range_.rows; done += kBlock) {
      TakeBlock(std::min(kBlock, rows - done));
    }
  }

  void TakeBlock(int n) {
    Block<T>& block = memory();
    definition_.Read(n, block.levels.data());
    int present = 0;
    for (int i = 0; i < n; ++i) present += block.levels[i] == present_;
    const int from = static_cast<int>(std::clamp<int64_t>(range_.begin - row_, 0, n));
    const int to =
        static_cast<int>(std::clamp<int64_t>(range_.begin + range_.rows - row_, from, n));
    row_ += n;
    Grow(found_ + to - from);
    if (present < n && valid_->empty()) {
      valid_->resize(out_->size());
      std::fill_n(valid_->begin(), found_, 1);
    }
    if (!valid_->empty()) MarkValid(from, to);
    Wide* out = out_->data() + found_;
    found_ += to - from;
    if constexpr (std::is_same_v<T, Wide>) {
      if (present == n && to - from == n) return values_->Read(n, out);
    }
    values_->Read(present, block.values.data());
    const T* next = block.values.data();
    for (int i = 0; i < from; ++i) next += block.levels[i] == present_;
    if constexpr (sizeof(T) == sizeof(uint64_t)) {
      return SpreadValues(reinterpret_cast<const uint64_t*>(next), block.levels.data() + from,
                          static_cast<uint8_t>(present_), static_cast<size_t>(to - from),
                          reinterpret_cast<uint64_t*>(out));
    }
    for (int i = from; i < to; ++i) {  // A null takes what stands there: it is never read.
      *out++ = static_cast<Wide>(*next);
      next += block.levels[i] == present_;
    }
  }

  // Room for so many rows: by what is found, since a footer may claim any number.
  void Grow(int64_t rows) {
    if (rows <= std::ssize(*out_)) return;
    out_->resize(std::min(range_.rows, std::max(rows, 2 * std::ssize(*out_))));
    if (!valid_->empty()) valid_->resize(out_->size());
  }

  void MarkValid(int from, int to) {
    const uint8_t* levels = memory().levels.data();
    uint8_t* valid = valid_->data() + found_;
    for (int i = from; i < to; ++i) valid[i - from] = levels[i] == present_;
  }

  // Not in the thread's own storage: it would take the room of small threads' stacks.
  static Block<T>& memory() {
    static thread_local const auto memory = std::make_unique<Block<T>>();
    return *memory;
  }

  const parquet::ColumnDescriptor& leaf_;
  const FlatRange range_;
  const int16_t present_;  // The level of a value.
  std::vector<Wide>* const out_;
  std::vector<uint8_t>* const valid_;  // Empty until there is a null.
  const std::unique_ptr<ChunkValues> values_;
  LevelReader definition_;
  int64_t row_ = -1;  // Of the chunk, that comes next; -1: not known.
  int64_t found_ = 0;
};

template <typename T, typename Wide>
arrow::Status ReadAs(parquet::PageReader& pages, const parquet::ColumnDescriptor& leaf,
                     const FlatRange& range, std::vector<Wide>* values, Column* column) {
  column->valid.clear();
  column->rows = Reading<T, Wide>(leaf, range, values, &column->valid).Run(pages);
  return arrow::Status::OK();
}

}  // namespace

bool IsPlainNumber(const arrow::DataType& type, const parquet::ColumnDescriptor& column) {
  switch (type.id()) {
    case arrow::Type::INT64:
      return column.physical_type() == parquet::Type::INT64;
    case arrow::Type::INT32:
      return column.physical_type() == parquet::Type::INT32;
    case arrow::Type::DOUBLE:
      return column.physical_type() == parquet::Type::DOUBLE;
    case arrow::Type::FLOAT:
      return column.physical_type() == parquet::Type::FLOAT;
    default:
      return false;
  }
}

void SetNumbers(bool ints, Column* column) {
  column->type = ints ? ColumnType::kInt64 : ColumnType::kDouble;
  if (ints) {
    column->doubles = {};
  } else {
    column->ints = {};
  }
}

bool IsFlat(const arrow::DataType& type, const parquet::ColumnDescriptor& column) {
  return column.max_repetition_level() == 0 && IsPlainNumber(type, column);
}

arrow::Status ReadFlat(parquet::PageReader& pages, const parquet::ColumnDescriptor& leaf,
                       const FlatRange& range, Column* column) {
  const parquet::Type::type type = leaf.physical_type();
  SetNumbers(type == parquet::Type::INT64 || type == parquet::Type::INT32, column);
  switch (type) {
    case parquet::Type::INT64:
      return ReadAs<int64_t>(pages, leaf, range, &column->ints, column);
    case parquet::Type::INT32:
      return ReadAs<int32_t>(pages, leaf, range, &column->ints, column);
    case parquet::Type::DOUBLE:
      return ReadAs<double>(pages, leaf, range, &column->doubles, column);
    case parquet::Type::FLOAT:
      return ReadAs<float>(pages, leaf, range, &column->doubles, column);
    default:
      return arrow::Status::TypeError("not a column of plain numbers");
  }
}

}  // namespace starling
