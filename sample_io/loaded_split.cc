#include "sample_io/loaded_split.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sample_io/derive.h"
#include "sample_io/pass_order.h"
#include "sample_io/requests.h"
#include "sample_io/row_sample.h"

namespace starling {
namespace {

// Null if rows have no weights. They must stand one a row, or one a request.
absl::StatusOr<const Column*> WeightsOf(const SampleOptions& options, const ColumnBatch& batch) {
  if (!options.has_weight()) return nullptr;
  const Column* weights = batch.Find(options.weight());
  if (weights == nullptr || weights->is_list || weights->type == ColumnType::kString) {
    return absl::FailedPreconditionError(
        absl::StrCat("column ", options.weight(), ": a weight must be a number"));
  }
  if (batch.flat() || weights->by_request) return weights;
  return absl::FailedPreconditionError(
      absl::StrCat("column ", options.weight(),
                   ": whole requests are sampled, so the weight must be a column of the user"));
}

// A row, or request, before any reordering; a request stands as its first row.
QuarantinedRow UnfitRow(const LoadOptions& options, const Split& of, const LoadedSplit& split,
                        RowSample::Unfit unfit) {
  const ColumnBatch& batch = split.columns;
  const bool grouped = !batch.flat();
  const int64_t row = grouped ? split.file_starts[unfit.row] : unfit.row;
  const bool has_row = !grouped || row < split.file_starts[unfit.row + 1];
  QuarantinedRow out{of.file,
                     of.row_group,
                     of.begin + split.PartRow(grouped && !split.nested ? row : unfit.row),
                     options.sample.weight(),
                     std::move(unfit.reason),
                     {}};
  for (const Column& values : batch.columns) {
    out.values.emplace_back();
    if (!values.by_request && !has_row) continue;
    const int64_t at = values.by_request ? unfit.row : row;
    if (!values.IsNull(at)) out.values.back() = ValueText(values, at);
  }
  return out;
}

// Sets the order of rows, or requests, before any reordering.
absl::Status SetOrder(const LoadOptions& options, const Split& of, LoadedSplit* split) {
  const ColumnBatch& batch = split->columns;
  const int64_t entries = batch.flat() ? batch.rows : batch.requests;
  if (TakesAll(options.sample)) {
    split->order = RowOrder(entries, options.shuffle, options.seed, options.pass, split->split);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const Column* weights, WeightsOf(options.sample, batch));
  const uint64_t key = SampleKey(options.seed, options.pass, split->split);
  ASSIGN_OR_RETURN(RowSample sample, SampleRows(options.sample, weights, entries, key));
  split->order = std::move(sample.rows);
  if (options.shuffle) {
    Shuffle(RowKey(options.seed, options.pass, split->split), &split->order);
  }
  for (RowSample::Unfit& unfit : sample.unfit) {
    split->unfit.push_back(UnfitRow(options, of, *split, std::move(unfit)));
  }
  return absl::OkStatus();
}

uint32_t BatchesOf(const LoadedSplit& split, int64_t batch_rows) {
  const int64_t rows = split.nested ? split.columns.requests : split.columns.rows;
  const int64_t batches = (rows + batch_rows - 1) / batch_rows;
  // The unfit rows are told with the first batch.
  return static_cast<uint32_t>(std::max<int64_t>(batches, split.unfit.empty() ? 0 : 1));
}

}  // namespace

std::pair<int64_t, int64_t> LoadedSplit::RowsOf(int64_t batch, int64_t batch_rows) const {
  const int64_t begin = batch * batch_rows, end = begin + batch_rows;
  if (columns.flat()) return {std::min(begin, columns.rows), std::min(end, columns.rows)};
  auto at = [&](int64_t of) {
    if (nested) return starts[std::min(of, columns.requests)];
    return *std::lower_bound(starts.begin(), starts.end() - 1, of);
  };
  return {at(begin), at(end)};
}

int64_t LoadedSplit::FileRow(int64_t row) const {
  int64_t before = row;  // Before sampling and shuffling: of the rows that matched.
  if (columns.flat()) {
    before = order[row];
  } else {
    const uint32_t request = columns.request_of_row[row];
    before = nested ? order[request] : file_starts[order[request]] + row - starts[request];
  }
  return PartRow(before);
}

QuarantinedRow LoadedSplit::Quarantined(const Split& of, int64_t row, std::string column,
                                        std::string reason) const {
  QuarantinedRow out{of.file,           of.row_group,      of.begin + FileRow(row),
                     std::move(column), std::move(reason), {}};
  for (const Column& values : columns.columns) {
    out.values.emplace_back();
    const int64_t at = columns.EntryOf(values, row);
    if (!values.IsNull(at)) out.values.back() = ValueText(values, at);
  }
  return out;
}

absl::Status LoadSplit(const SampleSource& source, const FeatureSet& features,
                       const LoadOptions& options, LoadedSplit* split) {
  const Split& of = source.splits()[split->split];
  ASSIGN_OR_RETURN(split->columns, source.ReadReusing(static_cast<int>(split->split),
                                                      options.columns, std::move(split->columns)));
  ColumnBatch& columns = split->columns;
  if (columns.rows == 0) return absl::OkStatus();  // None matches.
  const int64_t file_rows = columns.rows;
  RETURN_IF_ERROR(Annotate(FormRequests(features, &columns), of.file));
  split->nested = !columns.flat() && columns.requests == file_rows && features.request().empty();
  if (!columns.flat()) split->file_starts = RequestStarts(columns);
  RETURN_IF_ERROR(Annotate(SetOrder(options, of, split), of.Place()));
  const bool reordered = options.shuffle || !TakesAll(options.sample);
  if (reordered) Reorder(split->order, &columns);
  if (!columns.flat()) split->starts = reordered ? RequestStarts(columns) : split->file_starts;
  split->batches = BatchesOf(*split, options.batch_rows);
  return absl::OkStatus();
}

}  // namespace starling
