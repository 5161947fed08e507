// Ids, threads and memory readings for `bench store`.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <latch>
#include <numeric>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/status.h"
#include "tools/bench_store.h"

namespace starling {
namespace {

constexpr double kExponent = 1.05;
constexpr uint64_t kSpread = 2147483647;  // A prime above any number of rows.

// Ranks 0 to n - 1 by Zipf's law, exactly: rejection-inversion (Hörmann and
// Derflinger 1996), which accepts nearly every draw.
class Zipf {
 public:
  explicit Zipf(int64_t n) : n_(n), low_(Area(1.5) - 1), high_(Area(n + 0.5)) {}
  int64_t Rank(uint64_t key, uint64_t* counter) const {
    while (true) {
      double area = low_ + RandomUniform(key, (*counter)++) * (high_ - low_);
      double x = std::pow(1 + area * (1 - kExponent), 1 / (1 - kExponent));
      int64_t k = std::clamp<int64_t>(std::llround(x), 1, n_);
      if (area >= Area(k + 0.5) - std::pow(k, -kExponent)) return k - 1;
    }
  }
  // Of all draws, about.
  double Share(int64_t rank) const { return std::pow(rank + 1, -kExponent) / (high_ - low_); }

 private:
  // The integral of x^-s from 1.
  static double Area(double x) { return (std::pow(x, 1 - kExponent) - 1) / (1 - kExponent); }
  const int64_t n_;
  const double low_, high_;
};

// The number behind `key`, which the kernel gives in KiB; 0 if there is none.
int64_t BytesBehind(const std::string& path, absl::string_view key) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return 0;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t kib = 0;
    if (words.size() > 1 && words[0] == key && absl::SimpleAtoi(words[1], &kib)) return kib << 10;
  }
  return 0;
}

}  // namespace

const char* NameOf(Draw draw) { return draw == Draw::kZipf ? "zipf" : "uniform"; }

uint64_t IdOfRow(uint32_t row) { return Mix64(row); }

IdBatch DrawBatch(Draw draw, int64_t rows, int64_t unique, int64_t draws, uint64_t seed,
                  uint64_t number) {
  const Zipf zipf(rows);
  const uint64_t key = Mix64(seed) + number;
  absl::flat_hash_map<uint32_t, uint32_t> counts;
  counts.reserve(std::min(unique, draws));
  uint64_t counter = 0;
  for (int64_t i = 0; i < draws && counts.size() < unique; ++i) {
    uint64_t row = draw == Draw::kZipf ? zipf.Rank(key, &counter) * kSpread % rows
                                       : RandomBelow(key, counter++, rows);
    ++counts[row];
  }
  std::vector<std::pair<uint64_t, uint32_t>> order;
  for (const auto& [row, count] : counts) order.emplace_back(IdOfRow(row), row);
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return IdBefore(a.first, b.first); });
  IdBatch batch;
  for (const auto& [id, row] : order) {
    batch.ids.push_back(id);
    batch.rows.push_back(row);
    batch.counts.push_back(counts[row]);
  }
  return batch;
}

std::vector<std::vector<IdBatch>> DrawBatches(const StoreBench& bench, Draw draw, int64_t rows) {
  std::vector<std::vector<IdBatch>> batches(kStoreThreads);
  RunThreads(kStoreThreads, [&](int t) {
    for (int b = 0; b < bench.batches; ++b) {
      batches[t].push_back(DrawBatch(draw, rows, bench.batch_ids, INT64_MAX, t, b));
    }
    return absl::OkStatus();
  }).IgnoreError();  // It cannot fail.
  return batches;
}

TableSpec StoreSpec(Rule rule, int64_t memory) {
  TableSpec spec;
  spec.mutable_options()->set_name("bench");
  spec.mutable_options()->set_tier(memory == 0 ? TableOptions::MEMORY : TableOptions::ROCKSDB);
  spec.mutable_options()->set_memory(memory == 0 ? int64_t{1} << 40 : memory);
  spec.set_seed(7);
  SegmentSpec* segment = spec.add_segments();
  segment->set_name("embedding");
  segment->set_dim(16);
  segment->set_init(0.01);
  OptimizerOptions* optimizer = segment->mutable_optimizer();
  const auto* smallest = optimizer->GetDescriptor()->FindFieldByName("rowwise_adagrad");
  if (rule == Rule::kSmallest && smallest != nullptr) {
    optimizer->GetReflection()->MutableMessage(optimizer, smallest);
  } else {
    optimizer->mutable_adagrad()->set_lr(0.01);
  }
  return spec;
}

absl::StatusOr<std::unique_ptr<EmbeddingTable>> OpenExpecting(Rule rule, int64_t rows) {
  TableSpec spec = StoreSpec(rule);
  spec.mutable_options()->set_rows_expected(rows);
  return EmbeddingTable::Open(spec, {});
}

absl::Status Fill(EmbeddingTable* table, int64_t from, int64_t to, int step,
                  std::span<const uint32_t> sights) {
  std::vector<float> weights(static_cast<size_t>(step) * table->width());
  std::vector<std::pair<uint64_t, uint32_t>> rows;
  std::vector<uint64_t> ids;
  std::vector<uint32_t> counts;
  for (int64_t row = from; row < to; row += step) {
    rows.clear();
    for (int64_t r = row; r < std::min(row + step, to); ++r) {
      rows.emplace_back(IdOfRow(r), sights.empty() ? 1 : sights[r]);
    }
    std::sort(rows.begin(), rows.end(),
              [](const auto& a, const auto& b) { return IdBefore(a.first, b.first); });
    ids.clear();
    counts.clear();
    for (const auto& [id, count] : rows) {
      ids.push_back(id);
      counts.push_back(count);
    }
    RETURN_IF_ERROR(table->LookupOrCreate(ids, counts, {},
                                          std::span(weights).first(ids.size() * table->width())));
  }
  return absl::OkStatus();
}

std::vector<uint32_t> ZipfSights(int64_t rows, double draws) {
  const Zipf zipf(rows);
  std::vector<uint32_t> sights(rows);
  for (int64_t rank = 0; rank < rows; ++rank) {
    const double expected = draws * zipf.Share(rank);
    sights[rank * kSpread % rows] = static_cast<uint32_t>(std::max(1.0, std::round(expected)));
  }
  return sights;
}

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

absl::StatusOr<double> RunThreads(int threads, const std::function<absl::Status(int)>& fn) {
  std::vector<absl::Status> status(threads);
  std::vector<double> began(threads), ended(threads);
  std::vector<std::thread> all;
  std::latch ready(threads);
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      ready.arrive_and_wait();
      began[t] = Seconds();
      status[t] = fn(t);
      ended[t] = Seconds();
    });
  }
  for (std::thread& thread : all) thread.join();
  for (const absl::Status& s : status) RETURN_IF_ERROR(s);
  return *std::max_element(ended.begin(), ended.end()) -
         *std::min_element(began.begin(), began.end());
}

int64_t ResidentBytes() {
  absl::StatusOr<std::string> text = ReadFile("/proc/self/statm");
  if (!text.ok()) return 0;
  std::vector<absl::string_view> words = absl::StrSplit(*text, ' ');
  int64_t pages = 0;
  return words.size() > 1 && absl::SimpleAtoi(words[1], &pages) ? pages * getpagesize() : 0;
}

int64_t HugePageBytes() { return BytesBehind("/proc/self/smaps_rollup", "AnonHugePages:"); }

int64_t AvailableBytes() { return BytesBehind("/proc/meminfo", "MemAvailable:"); }

bool HasMemory(const std::string& what, int64_t bytes) {
  if (int64_t free = AvailableBytes(); free < bytes) {
    absl::FPrintF(stderr, "SKIPPED %s: it needs %.1f GB of memory, and %.1f GB are free\n", what,
                  bytes / 1e9, free / 1e9);
    return false;
  }
  return true;
}

std::string RowsText(int64_t rows) {
  return rows >= 1'000'000 ? absl::StrFormat("%gM", rows / 1e6)
                           : absl::StrFormat("%gk", rows / 1e3);
}

}  // namespace starling
