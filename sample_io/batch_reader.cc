#include "sample_io/batch_reader.h"

#include <algorithm>
#include <deque>
#include <iostream>
#include <limits>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/stages.h"
#include "base/status.h"
#include "sample_io/bad_rows.h"
#include "sample_io/loaded_split.h"
#include "sample_io/pass_order.h"

namespace starling {
namespace {

// One split is always read ahead; more, up to one a thread, only while all
// that are held take no more than this share of the budget. The rest is for
// estimates that were too low.
constexpr int64_t kAheadShare = 2;
// Splits that are compiled, and kept for their memory.
constexpr size_t kSpentMax = 1;

// A split that is read ahead.
struct Ahead {
  bool ready = false;  // The rest is constant once this is set.
  absl::Status status;
  LoadedSplit split;
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

class Reader : public BatchReader, private SideWork {
 public:
  Reader(const SampleSource* source, const FeatureCompiler* compiler,
         const BatchReaderOptions& options, const ReaderPosition& start)
      : source_(source),
        compiler_(compiler),
        options_(options),
        pool_(options.pool != nullptr && options.pool->threads() > 1 ? options.pool : nullptr),
        pass_(start.pass),
        load_options_(LoadOptionsOf(options, compiler->features(), start.pass)),
        order_(SplitOrder(source->splits().size(), options.shuffle, options.seed, start.pass)),
        position_(start),
        claim_(start),
        bad_rows_(options.bad_rows_max, options.quarantine, load_options_.columns) {
    claim_.ordinal = OwnOrdinal(start.ordinal);
    if (claim_.ordinal != start.ordinal) claim_.batch = 0;
    load_ = claim_.ordinal;
  }

  ~Reader() override {
    {
      absl::MutexLock lock(&mu_);
      stop_ = true;
      work_.SignalAll();
    }
    if (pool_ != nullptr && !threads_.empty()) pool_->Remove(this);
    for (std::thread& thread : threads_) thread.join();
    absl::Status status = bad_rows_.Close();
    if (!status.ok()) std::cerr << "quarantine: " << status.message() << "\n";
  }

  absl::Status CheckStart(const ReaderPosition& start) const {
    bool valid = start.ordinal < order_.size() ? start.batch <= BatchesMax(start.ordinal)
                                               : start.ordinal == order_.size() && start.batch == 0;
    if (valid) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("position (split ", start.ordinal, ", batch ",
                                                   start.batch, ") is not one of this data set's"));
  }

  void StartThreads() {
    if (pool_ != nullptr) pool_->Add(this);
    for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this, i] { Work(i); });
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

 private:
  static LoadOptions LoadOptionsOf(const BatchReaderOptions& options, const FeatureSet& features,
                                   uint32_t pass) {
    LoadOptions load = {options.batch_rows, options.shuffle,
                        options.seed,       pass,
                        options.sample,     ColumnsOf(features, options.with_labels)};
    const std::string& weight = options.sample.weight();
    if (!weight.empty() &&
        std::find(load.columns.begin(), load.columns.end(), weight) == load.columns.end()) {
      load.columns.push_back(weight);
    }
    return load;
  }
  uint32_t OwnOrdinal(uint32_t ordinal) const {
    while (ordinal < order_.size() && ordinal % options_.shards != options_.shard) ++ordinal;
    return std::min<uint32_t>(ordinal, static_cast<uint32_t>(order_.size()));
  }
  const Split& SplitAt(uint32_t ordinal) const { return source_->splits()[order_[ordinal]]; }
  // How many there are is known once the split is loaded; not more than this.
  uint32_t BatchesMax(uint32_t ordinal) const {
    if (!TakesAll(options_.sample)) return std::numeric_limits<uint32_t>::max();
    return static_cast<uint32_t>((SplitAt(ordinal).rows + options_.batch_rows - 1) /
                                 options_.batch_rows);
  }
  void NextSplit() {
    claim_.ordinal = OwnOrdinal(claim_.ordinal + 1);
    claim_.batch = 0;
  }

  // ---- Background threads ----

  void Work(int number) {
    NameThread(absl::StrCat("reader ", number));
    mu_.Lock();
    while (!stop_) {
      if ((pool_ == nullptr || Behind()) && CanCompile()) {
        CompileOne();
      } else if (CanLoad()) {
        LoadOne();
      } else {
        StageWait wait(Stage::kRead);
        work_.Wait(&mu_);
      }
    }
    mu_.Unlock();
  }

  // On the pool's threads.
  bool RunSome() override {
    absl::MutexLock lock(&mu_);
    if (stop_ || compiling_ == options_.threads || !CanCompile()) return false;
    ++compiling_;
    CompileOne();
    --compiling_;
    return true;
  }

  // The consumer is about to wait: every thread compiles.
  bool Behind() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return 2 * static_cast<int>(queue_.size()) < options_.queue_max;
  }

  // There is room for one more batch.
  void WakeOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (pool_ != nullptr) pool_->NotifySideWork();
    if (pool_ == nullptr || Behind()) work_.Signal();
  }
  // There may be something to do for any background thread, or the end of it all.
  void WakeAll() {
    work_.SignalAll();
    if (pool_ != nullptr) pool_->NotifySideWork();
  }

  bool CanCompile() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !failed_ && static_cast<int>(queue_.size()) < options_.queue_max && !loaded_.empty() &&
           loaded_.front()->ready;
  }

  // Takes the next place in the queue and fills it, without the lock meanwhile.
  void CompileOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    std::shared_ptr<Ahead> ahead = loaded_.front();
    const ReaderPosition at = claim_;
    const uint32_t batches = ahead->status.ok() ? ahead->split.batches : at.batch + 1;
    if (at.batch >= batches) {  // It has no row for us.
      ahead = nullptr;
      return DropSplit();
    }
    if (free_.empty()) free_.push_back(std::make_unique<Item>());
    Item* item = free_.back().get();
    queue_.push_back(std::move(free_.back()));
    free_.pop_back();
    ++claim_.batch;
    item->after = claim_;
    if (claim_.batch == batches) {
      item->after = {pass_, at.ordinal + 1, 0};
      DropSplit();
    }
    WakeAll();  // There may be more to take, or room to load.
    mu_.Unlock();
    {
      StageSpan span(Stage::kCompile);
      item->status = ahead->status.ok() ? Compile(ahead->split, at, item) : ahead->status;
    }
    mu_.Lock();
    Release(std::move(ahead));
    failed_ = failed_ || !item->status.ok();
    item->ready = true;
    ready_.Signal();
    WakeAll();  // Memory may be free again, or an error the end of it all.
  }

  void DropSplit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    std::shared_ptr<Ahead> front = std::move(loaded_.front());
    loaded_.pop_front();
    Release(std::move(front));
    NextSplit();
    ready_.Signal();  // It may have been the last.
    WakeAll();
  }

  // The last to hold a split on gives its memory back.
  void Release(std::shared_ptr<Ahead> ahead) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (ahead.use_count() > 1) return;
    bytes_held_ -= source_->splits()[ahead->split.split].bytes;
    if (spent_.size() < kSpentMax) spent_.push_back(std::move(ahead->split.columns));
  }

  absl::Status Compile(const LoadedSplit& split, const ReaderPosition& at, Item* item) const {
    const Split& of = source_->splits()[split.split];
    const auto [begin, end] = split.RowsOf(at.batch, options_.batch_rows);
    item->rows_seen = end - begin;
    item->batch.rows = 0;
    if (at.batch == 0) {
      item->bad = split.unfit;
      item->rows_seen += static_cast<int64_t>(split.unfit.size());
    }
    if (begin == end) return absl::OkStatus();  // One request fills several batches' share.
    std::vector<int64_t> rows(end - begin);
    std::iota(rows.begin(), rows.end(), begin);
    std::vector<BadRow> bad;
    RETURN_IF_ERROR(
        Annotate(compiler_->Compile(split.columns, rows, options_.with_labels, &item->batch, &bad),
                 of.Place()));
    item->batch.name = {options_.job, pass_, split.split, at.batch};
    for (BadRow& row : bad) {
      item->bad.push_back(
          split.Quarantined(of, row.row, std::move(row.column), std::move(row.reason)));
    }
    return absl::OkStatus();
  }

  bool CanLoad() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (failed_ || load_ == order_.size()) return false;
    if (loaded_.size() < 2) return true;
    return static_cast<int>(loaded_.size()) <= options_.threads &&
           bytes_held_ + SplitAt(load_).bytes <= source_->read_memory() / kAheadShare;
  }

  void LoadOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    auto ahead = std::make_shared<Ahead>();
    ahead->split.split = order_[load_];
    bytes_held_ += SplitAt(load_).bytes;
    load_ = OwnOrdinal(load_ + 1);
    if (!spent_.empty()) {
      ahead->split.columns = std::move(spent_.back());
      spent_.pop_back();
    }
    loaded_.push_back(ahead);
    mu_.Unlock();
    {
      StageSpan span(Stage::kRead);
      ahead->status = LoadSplit(*source_, compiler_->features(), load_options_, &ahead->split);
    }
    mu_.Lock();
    ahead->ready = true;
    WakeAll();
  }

  // ---- The consumer's thread ----

  // The next item in order, once it is ready; null at the end of the pass.
  std::unique_ptr<Item> Take() {
    absl::MutexLock lock(&mu_);
    while (queue_.empty() ? claim_.ordinal < order_.size() : !queue_.front()->ready) {
      ready_.Wait(&mu_);
    }
    if (queue_.empty()) return nullptr;
    NoteQueue(Stage::kPrefetch, static_cast<int>(queue_.size()), options_.queue_max);
    std::unique_ptr<Item> item = std::move(queue_.front());
    queue_.pop_front();
    WakeOne();
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
  ThreadPool* const pool_;  // Null: threads_ compile.
  const uint32_t pass_;
  const LoadOptions load_options_;
  const std::vector<uint32_t> order_;  // Splits by ordinal.

  mutable absl::Mutex mu_;
  absl::CondVar work_;   // There may be something to do for a background thread,
  absl::CondVar ready_;  // or to take for the consumer. Apart: waking a thread costs.
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  int compiling_ ABSL_GUARDED_BY(mu_) = 0;        // Threads of the pool that do.
  bool failed_ ABSL_GUARDED_BY(mu_) = false;      // Some item in the queue holds an error.
  ReaderPosition position_ ABSL_GUARDED_BY(mu_);  // After the batch delivered last.
  ReaderPosition claim_ ABSL_GUARDED_BY(mu_);     // The next batch to compile.
  uint32_t load_ ABSL_GUARDED_BY(mu_) = 0;        // The next split to load.
  int64_t bytes_held_ ABSL_GUARDED_BY(mu_) = 0;   // Of splits in use.
  int64_t bad_count_ ABSL_GUARDED_BY(mu_) = 0;
  // Splits from claim_.ordinal on, in order; a batch under way holds its own on.
  std::deque<std::shared_ptr<Ahead>> loaded_ ABSL_GUARDED_BY(mu_);
  std::vector<ColumnBatch> spent_ ABSL_GUARDED_BY(mu_);
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
