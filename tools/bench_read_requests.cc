// bench read, requests: what it brings that rows which share a user hold the
// user's features once, through reading, lookup and pooling.
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "dense_net/device.h"
#include "sample_io/generator.h"
#include "sample_io/planted_model.h"
#include "tools/bench.h"
#include "tools/bench_read.h"
#include "tools/bench_store.h"

namespace starling {
namespace {

constexpr int kImpressions = 10;

// Looks up the ids of a batch and pools every slot on its own axis.
class LookupAndPool {
 public:
  explicit LookupAndPool(EmbeddingTable* table) : table_(table) {}

  absl::Status Create(const Batch& batch) {
    const TableIds& ids = batch.tables[0];
    rows_.resize(ids.ids.size() * table_->width());
    return table_->LookupOrCreate(ids.ids, ids.counts, {}, rows_);
  }
  absl::Status operator()(const Batch& batch) {
    const TableIds& ids = batch.tables[0];
    const int dim = table_->width();
    rows_.resize(ids.ids.size() * dim);
    RETURN_IF_ERROR(table_->Lookup(ids.ids, rows_));
    for (const Slot& slot : ids.slots) {
      const SlotView view = {.offsets = slot.offsets.data(),
                             .index = slot.index.data(),
                             .weights = slot.weights.empty() ? nullptr : slot.weights.data(),
                             .entry_of_row = nullptr,
                             .rows = rows_.data(),
                             .width = dim};
      const int entries = static_cast<int>(slot.offsets.size()) - 1;
      pooled_.resize(static_cast<size_t>(entries) * dim);
      CpuDevice().kernels().pool(view, 0, entries, 0, dim, pooled_.data(), dim);
    }
    return absl::OkStatus();
  }

 private:
  EmbeddingTable* const table_;
  std::vector<float> rows_, pooled_;
};

// Rows a CPU second: the reader's thread and the caller's together.
absl::StatusOr<double> Rate(const ReadBench& bench, const ReadData& data, EmbeddingTable* table) {
  LookupAndPool use(table);
  ASSIGN_OR_RETURN(ReadPass pass, ReadAll(bench, data, 1, std::ref(use)));
  return static_cast<double>(pass.rows) / pass.cpu_seconds;
}

}  // namespace

absl::Status BenchReadRequests(const ReadBench& bench) {
  GeneratorOptions options;
  options.out = JoinPath(bench.dir, "requests");
  options.rows = bench.rows;
  options.eval_rows = 1000;
  options.impressions = kImpressions;
  RETURN_IF_ERROR(Generate(options).status());
  ASSIGN_OR_RETURN(ReadData flat, OpenReadData(JoinPath(options.out, "train")));
  ASSIGN_OR_RETURN(ReadData nested, OpenReadData(JoinPath(options.out, "train_nested"), "", "user.",
                                                 "impressions."));
  ASSIGN_OR_RETURN(std::unique_ptr<EmbeddingTable> table,
                   EmbeddingTable::Open(StoreSpec(Rule::kAdagrad), {}));
  LookupAndPool use(table.get());
  RETURN_IF_ERROR(
      ReadAll(bench, flat, 1, [&](const Batch& batch) { return use.Create(batch); }).status());

  constexpr double kAll = PlantedModel::kIds + PlantedModel::kNumbers;
  constexpr double kUser = PlantedModel::kUserIds + PlantedModel::kUserNumbers;
  BenchResult result{"read.requests",
                     absl::StrCat(kImpressions, " rows a request, ", kUser, " of ", kAll,
                                  " features the user's, read + lookup + pooling"),
                     "rows a CPU second",
                     "the same rows, flat",
                     {},
                     {},
                     kAll / (kAll - kUser + kUser / kImpressions)};
  ReadBench requests = bench;  // A batch counts requests there; it holds as many rows.
  requests.batch_rows = bench.batch_rows / kImpressions;
  for (int i = 0; i < bench.alternations; ++i) {
    ASSIGN_OR_RETURN(double one, Rate(bench, flat, table.get()));
    ASSIGN_OR_RETURN(double many, Rate(requests, nested, table.get()));
    result.reference_values.push_back(one);
    result.values.push_back(many);
  }
  Report(result);
  return absl::OkStatus();
}

}  // namespace starling
