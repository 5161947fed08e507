// BatchReader: the batches of one pass, in order, read and compiled ahead by
// background threads, or a pool's, into a bounded queue.
//
// The order of splits, the sample of a split's rows and their order are functions of
// (seed, pass) alone. A batch holds rows of one split; the last of a split may be short.
// A split's bad rows do not move rows between batches.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "sample_io/batch.h"
#include "sample_io/data.pb.h"
#include "sample_io/feature_compiler.h"
#include "sample_io/source.h"

namespace starling {

// The next batch to be read: exact, and small enough to store in every cut.
struct ReaderPosition {
  uint32_t pass = 0;
  uint32_t ordinal = 0;  // Of the split in this pass's order.
  uint32_t batch = 0;    // Inside that split.
};

struct BatchReaderOptions {
  uint64_t job = 0;  // For BatchName.
  int batch_rows = 4096;
  bool shuffle = false;
  uint64_t seed = 0;
  int threads = 1;  // That read and compile; order does not depend on it.
  // Outlives the reader. If it has threads of its own, up to `threads` of these compile, as side
  // work, and the reader's read; they compile too while less than half of the queue is taken.
  ThreadPool* pool = nullptr;
  int queue_max = 4;  // Batches read ahead of the consumer.
  bool with_labels = true;
  SampleOptions sample;  // Which rows of a split are taken, and how often; default: all, once.
  // This reader takes the splits whose ordinal is `shard` modulo `shards`.
  uint32_t shard = 0;
  uint32_t shards = 1;
  double bad_rows_max =
      1.0;  // Share above which Next fails, once 1000 rows were seen or the pass ends.
  std::string quarantine;  // Parquet file for bad rows; "": they are only counted.
};

class BatchReader {
 public:
  // Starts at `start`; reads that pass only. `source` and `compiler` must outlive it.
  static absl::StatusOr<std::unique_ptr<BatchReader>> Create(const SampleSource* source,
                                                             const FeatureCompiler* compiler,
                                                             const BatchReaderOptions& options,
                                                             const ReaderPosition& start);
  virtual ~BatchReader() = default;  // Stops the threads, whatever they are doing.

  // OutOfRange at the end of the pass. `batch` is replaced; its vectors are reused.
  virtual absl::Status Next(Batch* batch) = 0;
  // The position after the batch that Next returned last.
  virtual ReaderPosition position() const = 0;
  virtual int64_t bad_rows() const = 0;
  // Where a batch's rows come from ("logs/a.parquet: row group 3"), for messages.
  virtual std::string Place(const BatchName& name) const = 0;
};

}  // namespace starling
