// bench train, case rows: what a sample costs as the table grows. The rows that training
// touches are made among all others, in random order, so that they lie all over the table.
#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/status.h"
#include "sample_io/generator.h"
#include "tools/bench.h"
#include "tools/bench_train.h"

namespace starling {
namespace {

// 16 GiB of budget hold 100 M rows of 97 bytes and their index.
constexpr char kConfig[] = R"(
name: rows
data: {train: "%s/rows/train", label: click, event_time: ts, batch: 4096}
features:
  - {id: [C1..C26], dim: 16, table: {memory: 16GiB, tier: memory}}
  - {raw: [I1..I13], norm: log1p}
model: {deepfm: {hidden: [400, 400, 400]}}
optimizer: {sparse: {rowwise_adagrad: {lr: 0.02}}, dense: {adam: {lr: 0.001}}}
train: {dir: "%s/run", checkpoint: {every: 0s}}
)";

constexpr int64_t kAtOnce = 1 << 16;

// Makes `count` rows, of `known` ids and others between them.
absl::Status MakeRows(const std::vector<uint64_t>& known, int64_t count, ParameterStore* store) {
  std::vector<uint64_t> ids;
  std::vector<float> rows;
  for (int64_t made = 0; made < count; made += kAtOnce) {
    const int64_t end = std::min(count, made + kAtOnce);
    const int64_t ours = std::ssize(known), all = std::max(ours, count);
    ids.assign(known.begin() + ours * made / all, known.begin() + ours * end / all);
    for (int64_t i = made; std::ssize(ids) < end - made; ++i) ids.push_back(Mix64(i + (1ll << 40)));
    std::sort(ids.begin(), ids.end(), IdBefore);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    const std::vector<uint32_t> counts(ids.size(), 1);
    const std::vector<int64_t> times(ids.size(), 0);
    const std::vector<TableKeys> keys = {{ids, counts, times}};
    rows.resize(ids.size() * 17);
    const std::vector<std::span<float>> spans = {rows};
    RETURN_IF_ERROR(store->PullRows(PullMode::kCreate, keys, spans));
  }
  return absl::OkStatus();
}

// Every id of the training data, in random order.
absl::StatusOr<std::vector<uint64_t>> IdsOf(TrainBench* bench) {
  absl::flat_hash_set<uint64_t> seen;
  RETURN_IF_ERROR(bench->Read([&](const Batch& batch) {
    seen.insert(batch.tables[0].ids.begin(), batch.tables[0].ids.end());
  }));
  std::vector<uint64_t> ids(seen.begin(), seen.end());
  std::sort(ids.begin(), ids.end(), [](uint64_t a, uint64_t b) { return Mix64(a) < Mix64(b); });
  return ids;
}

}  // namespace

absl::Status BenchTrainRows(const std::string& dir, bool quick) {
  GeneratorOptions data;
  data.out = JoinPath(dir, "rows");
  data.shape = DataShape::kCriteo;
  data.rows = quick ? 40'000 : 200'000;
  data.eval_rows = 1000;
  RETURN_IF_ERROR(Generate(data).status());
  ThreadPool pool(0);
  double least = 0;
  for (const int64_t rows : quick ? std::vector<int64_t>{100'000, 1'000'000}
                                  : std::vector<int64_t>{1'000'000, 10'000'000, 100'000'000}) {
    ASSIGN_OR_RETURN(std::unique_ptr<TrainBench> bench,
                     TrainBench::Create(absl::StrFormat(kConfig, dir, dir), dir, &pool));
    ASSIGN_OR_RETURN(const std::vector<uint64_t> known, IdsOf(bench.get()));
    RETURN_IF_ERROR(MakeRows(known, rows, &bench->store()));
    RETURN_IF_ERROR(bench->Pass().status());  // Warms memory, and makes what ids were left out.
    std::vector<double> cost, sparse;
    for (int i = 0; i < (quick ? 2 : 5); ++i) {
      ASSIGN_OR_RETURN(const TrainPass pass, bench->Pass());
      const auto samples = static_cast<double>(pass.samples);
      cost.push_back(1e6 * pass.seconds / samples);
      sparse.push_back(1e6 *
                       (pass.stages[static_cast<int>(Stage::kPull)].busy +
                        pass.stages[static_cast<int>(Stage::kPush)].busy) /
                       samples);
    }
    const TableStats stats = bench->store().table(0).stats();
    if (least == 0) least = Median(cost);
    ReportFigures("train.rows", absl::StrFormat("%d rows", stats.rows_memory),
                  {{"us a sample", Median(cost)},
                   {"by the least", Median(cost) / least},
                   {"us of the cores' in pull and push", Median(sparse)},
                   {"bytes a row", static_cast<double>(stats.bytes_memory) /
                                       static_cast<double>(stats.rows_memory)}});
  }
  return absl::OkStatus();
}

}  // namespace starling
