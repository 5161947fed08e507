#include "tools/memory_estimate.h"

#include <algorithm>
#include <vector>

#include "sample_io/batch_reader.h"

namespace starling {
namespace {

// Two are loaded, of which one is compiled; one more is being reordered, or kept for its memory.
constexpr int64_t kSplits = 3;
// Beside those in the reader's queue: being compiled, looked up ahead (2, and one given
// back), and in the steps under way.
constexpr int64_t kBatchesMore = 5;
constexpr int64_t kSteps = 2;  // One computes while the last one's memory is given back.
// Copies of the dense parameters: in the store, two moments, and in each step twice.
constexpr int64_t kDenseCopies = 3 + 2 * kSteps;
constexpr int64_t kProcessBytes = 72 << 20;

int64_t ReadingBytes(const SampleSource& source) {
  std::vector<int64_t> bytes;
  for (const Split& split : source.splits()) bytes.push_back(split.bytes);
  std::sort(bytes.rbegin(), bytes.rend());
  int64_t sum = 0;
  for (size_t s = 0; s < std::min<size_t>(bytes.size(), kSplits); ++s) sum += bytes[s];
  return sum;
}

}  // namespace

MemoryEstimate EstimateMemory(const Plan& plan, const SampleSource& source, const IdSample& sample,
                              const Network& network, int64_t table_bytes) {
  const int64_t steps = kSteps + plan.job.train().staleness();
  MemoryEstimate out;
  out.tables = table_bytes;
  out.reading = ReadingBytes(source);
  int64_t row_floats = 0, embedding = 0;
  for (size_t t = 0; t < sample.tables.size(); ++t) {
    row_floats += sample.tables[t].ids_batch * plan.graph.table_width(static_cast<int>(t));
  }
  for (const SlotSpec& slot : plan.graph.slots()) embedding += slot.embedding_dim();
  const int64_t batches = BatchReaderOptions().queue_max + kBatchesMore + steps - kSteps;
  // Of a step: rows and their gradients. Their memory has an eighth to spare.
  out.steps = batches * sample.batch_bytes + steps * 2 * row_floats * 9 / 8 * sizeof(float);
  const int64_t lanes = std::max<int64_t>(1, plan.job.train().lanes());
  out.network = sizeof(float) * ((kDenseCopies + lanes) * network.param_floats() +
                                 (plan.job.data().batch() + 1) * embedding);
  out.process = kProcessBytes;
  return out;
}

}  // namespace starling
