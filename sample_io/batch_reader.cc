#include "sample_io/batch_reader.h"

#include <algorithm>
#include <deque>
#include <iostream>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "sample_io/bad_rows.h"
#include "sample_io/pass_order.h"
#include "sample_io/requests.h"

namespace starling {
namespace {

// One split is always read ahead; more, up to one a thread, only while all
// that are held have few rows.
constexpr int64_t kRowsAheadMax = 1 << 18;

struct LoadedSplit {
  uint32_t split = 0;  // In the source's list.
  bool ready = false;  // The rest is constant once this is set.
  absl::Status status;
  // Rows in the pass's order. Reordering a column at a time here keeps it in
  // the cache; batches that each picked their rows from all columns would not.
  ColumnBatch columns;
  std::vector<int64_t> order;   // By row of `columns`, or request: that in the row group.
  std::vector<int64_t> starts;  // First row of each request, and the end; empty: flat.

  // The rows of `columns` that are batch `batch`. Of requests: all rows of
  // those that begin in the batch's share of the file's rows.
  std::pair<int64_t, int64_t> RowsOf(int64_t batch, int64_t batch_rows) const {
    const int64_t begin = batch * batch_rows, end = begin + batch_rows;
    if (columns.flat()) return {begin, std::min(end, columns.rows)};
    auto at = [&](int64_t of) {
      if (nested) return starts[std::min(of, columns.requests)];
      return *std::lower_bound(starts.begin(), starts.end() - 1, of);
    };
    return {at(begin), at(end)};
  }
  // The row of the row group that holds `row`.
  int64_t FileRow(int64_t row) const {
    if (columns.flat()) return order[row];
    const uint32_t request = columns.request_of_row[row];
    return nested ? order[request] : file_starts[order[request]] + row - starts[request];
  }
  bool nested = false;               // A row of the file is a request.
  std::vector<int64_t> file_starts;  // As `starts`, before the reordering.
};

// A place in the queue, taken in order and filled by whichever thread took it.
struct Item {
  bool ready = false;
  absl::Status status;
  Batch batch;
  std::vector<QuarantinedRow> bad;
  int64_t rows_seen = 0;
  ReaderPosition after;
};

class Reader : public BatchReader {
 public:
  Reader(const SampleSource* source, const FeatureCompiler* compiler,
         const BatchReaderOptions& options, const ReaderPosition& start)
      : source_(source),
        compiler_(compiler),
        options_(options),
        pass_(start.pass),
        columns_(ColumnsOf(compiler->features(), options.with_labels)),
        order_(SplitOrder(source->splits().size(), options.shuffle, options.seed, start.pass)),
        position_(start),
        claim_(start),
        bad_rows_(options.bad_rows_max, options.quarantine, columns_) {
    claim_.ordinal = OwnOrdinal(start.ordinal);
    if (claim_.ordinal != start.ordinal) claim_.batch = 0;
    if (claim_.ordinal < order_.size() && claim_.batch == BatchesOf(claim_.ordinal)) NextSplit();
    load_ = claim_.ordinal;
  }

  ~Reader() override {
    {
      absl::MutexLock lock(&mu_);
      stop_ = true;
      changed_.SignalAll();
    }
    for (std::thread& thread : threads_) thread.join();
    absl::Status status = bad_rows_.Close();
    if (!status.ok()) std::cerr << "quarantine: " << status.message() << "\n";
  }

  absl::Status CheckStart(const ReaderPosition& start) const {
    bool valid = start.ordinal < order_.size() ? start.batch <= BatchesOf(start.ordinal)
                                               : start.ordinal == order_.size() && start.batch == 0;
    if (valid) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("position (split ", start.ordinal, ", batch ",
                                                   start.batch, ") is not one of this data set's"));
  }

  void StartThreads() {
    for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Work(); });
  }

  absl::Status Next(Batch* batch) override {
    while (final_.ok()) {
      std::unique_ptr<Item> item = Take();
      if (item == nullptr) {
        final_ = bad_rows_.Finish();
        if (final_.ok()) final_ = absl::OutOfRangeError("the pass is over");
        break;
      }
      final_ = item->status;
      if (final_.ok()) final_ = bad_rows_.Add(item->rows_seen, std::move(item->bad));
      const bool deliver = final_.ok() && item->batch.rows > 0;
      if (deliver) std::swap(*batch, item->batch);
      Account(std::move(item), deliver);
      if (deliver) return absl::OkStatus();
    }
    if (!absl::IsOutOfRange(final_)) {
      // The error counts, not what follows from it.
      bad_rows_.Close().IgnoreError();
    }
    return final_;
  }

  std::string Place(const BatchName& name) const override {
    return source_->splits()[name.split].Place();
  }

  ReaderPosition position() const override {
    absl::MutexLock lock(&mu_);
    return position_;
  }
  int64_t bad_rows() const override {
    absl::MutexLock lock(&mu_);
    return bad_count_;
  }
  Times times() const override {
    absl::MutexLock lock(&mu_);
    return times_;
  }

 private:
  uint32_t OwnOrdinal(uint32_t ordinal) const {
    while (ordinal < order_.size() && ordinal % options_.shards != options_.shard) ++ordinal;
    return std::min<uint32_t>(ordinal, static_cast<uint32_t>(order_.size()));
  }
  const Split& SplitAt(uint32_t ordinal) const { return source_->splits()[order_[ordinal]]; }
  uint32_t BatchesOf(uint32_t ordinal) const {
    return static_cast<uint32_t>((SplitAt(ordinal).rows + options_.batch_rows - 1) /
                                 options_.batch_rows);
  }
  void NextSplit() {
    claim_.ordinal = OwnOrdinal(claim_.ordinal + 1);
    claim_.batch = 0;
  }

  // ---- Background threads ----

  void Work() {
    mu_.Lock();
    while (!stop_) {
      if (CanCompile()) {
        CompileOne();
      } else if (CanLoad()) {
        LoadOne();
      } else {
        changed_.Wait(&mu_);
      }
    }
    mu_.Unlock();
  }

  bool CanCompile() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !failed_ && static_cast<int>(queue_.size()) < options_.queue_max && !loaded_.empty() &&
           loaded_.front()->ready;
  }

  // Takes the next place in the queue and fills it, without the lock meanwhile.
  void CompileOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    std::shared_ptr<const LoadedSplit> split = loaded_.front();
    const ReaderPosition at = claim_;
    if (free_.empty()) free_.push_back(std::make_unique<Item>());
    Item* item = free_.back().get();
    queue_.push_back(std::move(free_.back()));
    free_.pop_back();
    ++claim_.batch;
    item->after = claim_;
    if (claim_.batch == BatchesOf(at.ordinal)) {
      item->after = {pass_, at.ordinal + 1, 0};
      rows_held_ -= SplitAt(at.ordinal).rows;
      loaded_.pop_front();
      NextSplit();
    }
    changed_.SignalAll();  // There may be more to take, or room to load.
    mu_.Unlock();
    const absl::Time start = absl::Now();
    item->status = split->status.ok() ? Compile(*split, at, item) : split->status;
    split = nullptr;
    const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
    mu_.Lock();
    times_.compile += seconds;
    failed_ = failed_ || !item->status.ok();
    item->ready = true;
    changed_.SignalAll();
  }

  absl::Status Compile(const LoadedSplit& split, const ReaderPosition& at, Item* item) const {
    const Split& of = source_->splits()[split.split];
    const auto [begin, end] = split.RowsOf(at.batch, options_.batch_rows);
    item->rows_seen = end - begin;
    item->batch.rows = 0;
    if (begin == end) return absl::OkStatus();  // One request fills several batches' share.
    std::vector<int64_t> rows(end - begin);
    std::iota(rows.begin(), rows.end(), begin);
    std::vector<BadRow> bad;
    RETURN_IF_ERROR(
        Annotate(compiler_->Compile(split.columns, rows, options_.with_labels, &item->batch, &bad),
                 of.Place()));
    item->batch.name = {options_.job, pass_, split.split, at.batch};
    for (BadRow& row : bad) item->bad.push_back(Quarantined(of, split, std::move(row)));
    return absl::OkStatus();
  }

  static QuarantinedRow Quarantined(const Split& of, const LoadedSplit& split, BadRow bad) {
    QuarantinedRow out{
        of.file, of.row_group, split.FileRow(bad.row), std::move(bad.column), std::move(bad.reason),
        {}};
    for (const Column& column : split.columns.columns) {
      out.values.emplace_back();
      const int64_t at = split.columns.EntryOf(column, bad.row);
      if (!column.IsNull(at)) out.values.back() = ValueText(column, at);
    }
    return out;
  }

  bool CanLoad() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (failed_ || load_ == order_.size()) return false;
    if (loaded_.size() < 2) return true;
    return static_cast<int>(loaded_.size()) <= options_.threads &&
           rows_held_ + SplitAt(load_).rows <= kRowsAheadMax;
  }

  void LoadOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    auto split = std::make_shared<LoadedSplit>();
    split->split = order_[load_];
    rows_held_ += SplitAt(load_).rows;
    load_ = OwnOrdinal(load_ + 1);
    loaded_.push_back(split);
    mu_.Unlock();
    const absl::Time start = absl::Now();
    split->status = Load(split.get());
    const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
    mu_.Lock();
    times_.read += seconds;
    split->ready = true;
    changed_.SignalAll();
  }

  absl::Status Load(LoadedSplit* split) const {
    ASSIGN_OR_RETURN(split->columns, source_->Read(static_cast<int>(split->split), columns_));
    ColumnBatch& columns = split->columns;
    const int64_t file_rows = columns.rows;
    RETURN_IF_ERROR(Annotate(FormRequests(compiler_->features(), &columns),
                             source_->splits()[split->split].file));
    split->nested =
        !columns.flat() && columns.requests == file_rows && compiler_->features().request().empty();
    if (!columns.flat()) split->file_starts = RequestStarts(columns);
    split->order = RowOrder(columns.flat() ? columns.rows : columns.requests, options_.shuffle,
                            options_.seed, pass_, split->split);
    if (options_.shuffle) Reorder(split->order, &columns);
    if (!columns.flat()) split->starts = RequestStarts(columns);
    return absl::OkStatus();
  }

  // ---- The consumer's thread ----

  // The next item in order, once it is ready; null at the end of the pass.
  std::unique_ptr<Item> Take() {
    const absl::Time start = absl::Now();
    absl::MutexLock lock(&mu_);
    while (queue_.empty() ? claim_.ordinal < order_.size() : !queue_.front()->ready) {
      changed_.Wait(&mu_);
    }
    times_.wait += absl::ToDoubleSeconds(absl::Now() - start);
    if (queue_.empty()) return nullptr;
    std::unique_ptr<Item> item = std::move(queue_.front());
    queue_.pop_front();
    changed_.SignalAll();
    return item;
  }

  // Gives the item back for reuse.
  void Account(std::unique_ptr<Item> item, bool delivered) {
    absl::MutexLock lock(&mu_);
    if (delivered) position_ = item->after;
    bad_count_ = bad_rows_.count();
    item->ready = false;
    item->bad.clear();
    free_.push_back(std::move(item));
  }

  const SampleSource* const source_;
  const FeatureCompiler* const compiler_;
  const BatchReaderOptions options_;
  const uint32_t pass_;
  const std::vector<std::string> columns_;  // That are read.
  const std::vector<uint32_t> order_;       // Splits by ordinal.

  mutable absl::Mutex mu_;
  absl::CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  bool failed_ ABSL_GUARDED_BY(mu_) = false;      // Some item in the queue holds an error.
  ReaderPosition position_ ABSL_GUARDED_BY(mu_);  // After the batch delivered last.
  ReaderPosition claim_ ABSL_GUARDED_BY(mu_);     // The next batch to compile.
  uint32_t load_ ABSL_GUARDED_BY(mu_) = 0;        // The next split to load.
  int64_t rows_held_ ABSL_GUARDED_BY(mu_) = 0;    // Of splits in `loaded_`.
  int64_t bad_count_ ABSL_GUARDED_BY(mu_) = 0;
  Times times_ ABSL_GUARDED_BY(mu_);
  // Splits from claim_.ordinal on, in order; a batch under way holds its own on.
  std::deque<std::shared_ptr<LoadedSplit>> loaded_ ABSL_GUARDED_BY(mu_);
  std::deque<std::unique_ptr<Item>> queue_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<Item>> free_ ABSL_GUARDED_BY(mu_);

  // The consumer's alone.
  BadRows bad_rows_;
  absl::Status final_;  // Not ok: what Next returns from now on.

  std::vector<std::thread> threads_;
};

absl::Status CheckOptions(const BatchReaderOptions& options) {
  if (options.batch_rows < 1) return absl::InvalidArgumentError("batch must be at least 1 row");
  if (options.threads < 1) return absl::InvalidArgumentError("reader threads must be at least 1");
  if (options.queue_max < 1) return absl::InvalidArgumentError("reader queue must be at least 1");
  if (options.shard < options.shards) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("shard ", options.shard, " is not one of ", options.shards));
}

}  // namespace

absl::StatusOr<std::unique_ptr<BatchReader>> BatchReader::Create(const SampleSource* source,
                                                                 const FeatureCompiler* compiler,
                                                                 const BatchReaderOptions& options,
                                                                 const ReaderPosition& start) {
  RETURN_IF_ERROR(CheckOptions(options));
  auto reader = std::make_unique<Reader>(source, compiler, options, start);
  RETURN_IF_ERROR(reader->CheckStart(start));
  reader->StartThreads();
  return reader;
}

}  // namespace starling
