#include "sample_io/column_stats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/status.h"
#include "base/thread_pool.h"

namespace starling {
namespace {

// Columns of a part: few, so that a thread holds little of a row group; yet
// each part opens the file anew.
constexpr size_t kBlockColumns = 8;

double AsDouble(const ColumnStats& stats, int64_t value) {
  return stats.is_unsigned ? static_cast<double>(static_cast<uint64_t>(value))
                           : static_cast<double>(value);
}

// Least and greatest of `a` and `b`, in the column's order.
int64_t LeastInt(const ColumnStats& stats, int64_t a, int64_t b) {
  if (!stats.is_unsigned) return std::min(a, b);
  return static_cast<int64_t>(std::min(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
}
int64_t GreatestInt(const ColumnStats& stats, int64_t a, int64_t b) {
  return LeastInt(stats, a, b) == a ? b : a;
}

// A block of columns over the splits, merged in their order.
class Pass {
 public:
  Pass(const SampleSource& source, std::vector<ColumnSchema> columns, int threads)
      : source_(source), pool_(threads), columns_(std::move(columns)) {
    blocks_ = (columns_.size() + kBlockColumns - 1) / kBlockColumns;
    for (const ColumnSchema& column : columns_) result_.push_back(ColumnStats::Of(column));
  }

  absl::StatusOr<std::vector<ColumnStats>> Run() {
    const size_t parts = blocks_ * source_.splits().size();
    const size_t wave = static_cast<size_t>(pool_.threads()) * 4;
    for (size_t begin = 0; begin < parts; begin += wave) {
      RETURN_IF_ERROR(RunWave(begin, std::min(parts, begin + wave)));
    }
    return std::move(result_);
  }
  int64_t rows() const { return rows_; }

 private:
  struct Part {
    absl::Status status;
    std::vector<ColumnStats> stats;
    int64_t rows = 0;
  };

  // Parts go split by split, a split's blocks in order.
  absl::Status RunWave(size_t begin, size_t end) {
    std::vector<Part> parts(end - begin);
    pool_.ParallelFor(static_cast<int>(parts.size()),
                      [&](int i) { parts[i].status = ReadPart(begin + i, &parts[i]); });
    for (size_t i = 0; i < parts.size(); ++i) {
      RETURN_IF_ERROR(parts[i].status);
      if ((begin + i) % blocks_ == 0) rows_ += parts[i].rows;
    }
    pool_.ParallelFor(static_cast<int>(blocks_), [&](int block) {
      for (size_t i = 0; i < parts.size(); ++i) {
        if ((begin + i) % blocks_ != static_cast<size_t>(block)) continue;
        for (size_t c = 0; c < parts[i].stats.size(); ++c) {
          result_[block * kBlockColumns + c].Merge(parts[i].stats[c]);
        }
      }
    });
    return absl::OkStatus();
  }

  absl::Status ReadPart(size_t part, Part* out) {
    const size_t begin = part % blocks_ * kBlockColumns;
    const size_t end = std::min(columns_.size(), begin + kBlockColumns);
    const int split = static_cast<int>(part / blocks_);
    std::vector<std::string> names;
    for (size_t c = begin; c < end; ++c) names.push_back(columns_[c].name);
    ASSIGN_OR_RETURN(ColumnBatch batch, source_.Read(split, names));
    out->rows = batch.rows;
    for (size_t c = begin; c < end; ++c) {
      out->stats.push_back(ColumnStats::Of(columns_[c]));
      if (batch.rows > 0) out->stats.back().Add(batch.columns[c - begin], split);
    }
    return absl::OkStatus();
  }

  const SampleSource& source_;
  ThreadPool pool_;
  const std::vector<ColumnSchema> columns_;
  size_t blocks_ = 0;
  std::vector<ColumnStats> result_;
  int64_t rows_ = 0;
};

}  // namespace

ColumnStats ColumnStats::Of(const ColumnSchema& schema) {
  ColumnStats stats;
  stats.name = schema.name;
  stats.type = schema.type;
  stats.is_unsigned = absl::StrContains(schema.type, "uint64");
  return stats;
}

void ColumnStats::AddInt(int64_t value, uint64_t priority) {
  min_int = values == 0 ? value : LeastInt(*this, min_int, value);
  max_int = values == 0 ? value : GreatestInt(*this, max_int, value);
  ++values;
  sum += AsDouble(*this, value);
  distinct.Add(Mix64(static_cast<uint64_t>(value)));
  top.Add(static_cast<uint64_t>(value), "");
  sample.Add(priority, AsDouble(*this, value));
}

void ColumnStats::AddDouble(double value, uint64_t priority) {
  nans += std::isnan(value);
  infinities += std::isinf(value);
  if (!std::isfinite(value)) return;
  value += 0.0;  // Negative zero is zero.
  min_double = values == 0 ? value : std::min(min_double, value);
  max_double = values == 0 ? value : std::max(max_double, value);
  ++values;
  sum += value;
  distinct.Add(Mix64(std::bit_cast<uint64_t>(value)));
  sample.Add(priority, value);
}

void ColumnStats::Add(const Column& column, int split) {
  // A file without one value of a column may not know its type.
  if (values == 0) kind = column.type;
  is_list = is_list || column.is_list;
  rows += column.rows;
  for (int64_t row = 0; row < column.rows; ++row) {
    const bool null = column.IsNull(row);
    nulls += null;
    int64_t begin = row, end = row + !null;
    if (column.is_list) {
      begin = column.list_offsets[row];
      end = null ? begin : column.list_offsets[row + 1];
    }
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t priority = RandomBits(static_cast<uint64_t>(split), static_cast<uint64_t>(i));
      switch (column.type) {
        case ColumnType::kInt64:
          AddInt(column.ints[i], priority);
          break;
        case ColumnType::kDouble:
          AddDouble(column.doubles[i], priority);
          break;
        case ColumnType::kString: {
          const uint64_t hash = HashBytes(column.strings[i], 0);
          ++values;
          distinct.Add(hash);
          top.Add(hash, column.strings[i]);
        }
      }
    }
  }
}

void ColumnStats::Merge(const ColumnStats& other) {
  if (other.values > 0) {
    const bool first = values == 0;
    min_int = first ? other.min_int : LeastInt(*this, min_int, other.min_int);
    max_int = first ? other.max_int : GreatestInt(*this, max_int, other.max_int);
    min_double = first ? other.min_double : std::min(min_double, other.min_double);
    max_double = first ? other.max_double : std::max(max_double, other.max_double);
  }
  const bool typed = values + nans + infinities > 0;
  if (!typed) kind = other.kind;
  is_list = is_list || other.is_list;
  rows += other.rows;
  nulls += other.nulls;
  values += other.values;
  nans += other.nans;
  infinities += other.infinities;
  sum += other.sum;
  distinct.Merge(other.distinct);
  top.Merge(other.top);
  sample.Merge(other.sample);
}

double ColumnStats::null_share() const {
  return rows == 0 ? 0 : static_cast<double>(nulls) / static_cast<double>(rows);
}

double ColumnStats::list_length_mean() const {
  return static_cast<double>(values + nans + infinities) / static_cast<double>(rows - nulls);
}

int64_t ColumnStats::distinct_values() const {
  return distinct_is_exact() ? static_cast<int64_t>(top.kept()) : std::llround(distinct.Estimate());
}

std::string ColumnStats::TextOf(const TopValues::Entry& entry) const {
  if (kind == ColumnType::kString) return entry.text;
  return is_unsigned ? absl::StrCat(entry.key) : absl::StrCat(static_cast<int64_t>(entry.key));
}

const ColumnStats* DataStats::Find(absl::string_view name) const {
  for (const ColumnStats& column : columns) {
    if (column.name == name) return &column;
  }
  return nullptr;
}

absl::StatusOr<DataStats> ReadDataStats(const SampleSource& source,
                                        const std::vector<std::string>& columns, int threads) {
  std::vector<ColumnSchema> asked;
  for (const std::string& name : columns) {
    auto found = std::find_if(source.schema().begin(), source.schema().end(),
                              [&](const ColumnSchema& column) { return column.name == name; });
    if (found == source.schema().end()) {
      return absl::NotFoundError(absl::StrCat("no column ", name, " in the data"));
    }
    asked.push_back(*found);
  }
  DataStats stats;
  std::set<std::string> files;
  for (const Split& split : source.splits()) files.insert(split.file);
  stats.files = static_cast<int64_t>(files.size());
  stats.splits = static_cast<int64_t>(source.splits().size());
  Pass pass(source, columns.empty() ? source.schema() : asked, threads);
  ASSIGN_OR_RETURN(stats.columns, pass.Run());
  stats.rows = pass.rows();
  stats.counts = source.counts();
  return stats;
}

}  // namespace starling
