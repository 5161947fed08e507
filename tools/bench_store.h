// What the cases of `bench store` share: sizes, ids drawn beforehand, threads
// that start together, and a table behind its public header alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "embedding_store/embedding_table.h"

namespace starling {

struct StoreBench {
  bool quick = false;
  int64_t rows = 20'000'000;  // Less than 2^27 / 5: `scale` goes up to five times that.
  int batch_ids = 65536;      // Unique ids of a call.
  int batches = 32;           // Of each thread; beyond any cache when ids are uniform.
  int calls = 32;             // Of each thread in one measurement,
  int warm = 4;               // after so many that do not count.
  int alternations = 7;
  std::string dir;  // Scratch; exists, and is removed at the end.
};
inline constexpr int kStoreThreads = 2;

enum class Draw { kUniform, kZipf };  // Zipf's exponent is 1.05.
const char* NameOf(Draw draw);

// One call's ids, unique and in the order the trainer gives them.
struct IdBatch {
  std::vector<uint64_t> ids;
  std::vector<uint32_t> rows;    // The row's number: 0 is the first made.
  std::vector<uint32_t> counts;  // Times it was drawn.
};
// Rows are numbered in the order they are made; ranks of Zipf's law are spread over them.
uint64_t IdOfRow(uint32_t row);
// Draws until there are `unique` different ids, or `draws` draws were made.
// Batch `number` of a seed is the same in every process.
IdBatch DrawBatch(Draw draw, int64_t rows, int64_t unique, int64_t draws, uint64_t seed,
                  uint64_t number);
// [thread][batch], as many as the options say.
std::vector<std::vector<IdBatch>> DrawBatches(const StoreBench& bench, Draw draw, int64_t rows);

// A spec of 16 weights; tier memory unless `memory` bytes are given.
enum class Rule { kAdagrad, kSmallest };  // Smallest state: rowwise_adagrad, if it exists.
TableSpec StoreSpec(Rule rule, int64_t memory = 0);
// One of tier memory that takes memory for `rows` at the start: on huge pages, where there are any.
absl::StatusOr<std::unique_ptr<EmbeddingTable>> OpenExpecting(Rule rule, int64_t rows);
// Makes rows [from, to), in order, `step` rows a call, on this thread. Row r was
// seen sights[r] times, or once if there are none.
absl::Status Fill(EmbeddingTable* table, int64_t from, int64_t to, int step,
                  std::span<const uint32_t> sights = {});
// How often each row is seen in `draws` draws by Zipf's law: what is expected, but once at least.
std::vector<uint32_t> ZipfSights(int64_t rows, double draws);

double Seconds();  // A steady clock.
// Runs fn(0) … fn(threads - 1) at once, each on its own thread: seconds until all returned.
absl::StatusOr<double> RunThreads(int threads, const std::function<absl::Status(int)>& fn);

int64_t ResidentBytes();
int64_t HugePageBytes();  // Of these, on huge pages.
int64_t AvailableBytes();
// True if that much memory is free now; else says loudly on stderr what is left out.
bool HasMemory(const std::string& what, int64_t bytes);
std::string RowsText(int64_t rows);  // "20M"

// The cases. Those on one filled table share it.
absl::Status BenchStoreLookup(const StoreBench& bench, EmbeddingTable* table);
absl::Status BenchStoreApply(const StoreBench& bench, EmbeddingTable* table);
absl::Status BenchStoreSnapshot(const StoreBench& bench, EmbeddingTable* table);
absl::Status BenchStoreScale(const StoreBench& bench);

}  // namespace starling
