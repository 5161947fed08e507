#include "tools/sample.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "sample_io/feature_compiler.h"
#include "sample_io/requests.h"

namespace starling {
namespace {

// Ids of one table, and how many of them have been seen often enough for a row.
struct Seen {
  uint32_t needed = 1;
  absl::flat_hash_map<uint64_t, uint32_t> counts;
  int64_t admitted = 0;

  void Add(const TableIds& table) {
    for (size_t u = 0; u < table.ids.size(); ++u) {
      uint32_t& count = counts[table.ids[u]];
      const bool before = count >= needed;
      count += table.counts[u];
      admitted += !before && count >= needed;
    }
  }
};

std::vector<Seen> SeenOf(const TableSet& tables) {
  std::vector<Seen> seen(tables.tables_size());
  for (int t = 0; t < tables.tables_size(); ++t) {
    const AdmitOptions& admit = tables.tables(t).options().admit();
    if (admit.has_count()) seen[t].needed = admit.count();
    if (admit.has_exact_count()) seen[t].needed = admit.exact_count();
  }
  return seen;
}

template <typename T>
int64_t BytesOf(const std::vector<T>& values) {
  return std::ssize(values) * static_cast<int64_t>(sizeof(T));
}

int64_t BytesOf(const Batch& batch) {
  int64_t bytes = BytesOf(batch.labels) + BytesOf(batch.dense) + BytesOf(batch.groups) +
                  BytesOf(batch.event_times) + BytesOf(batch.request_of_row);
  for (const TableIds& table : batch.tables) {
    bytes += BytesOf(table.ids) + BytesOf(table.counts) + BytesOf(table.event_times) +
             BytesOf(table.occurrence_offsets) + BytesOf(table.occurrences.codes) +
             BytesOf(table.occurrences.weights);
    for (const Slot& slot : table.slots) {
      bytes += BytesOf(slot.offsets) + BytesOf(slot.index) + BytesOf(slot.weights);
    }
  }
  return bytes;
}

}  // namespace

double DistinctIds::Extrapolate(int64_t rows_all) const {
  if (rows == 0 || ids == 0) return 0;
  if (rows_all <= rows || ids_half == 0 || rows_half == 0) return static_cast<double>(ids);
  double power = std::log(static_cast<double>(ids) / ids_half) /
                 std::log(static_cast<double>(rows) / rows_half);
  power = std::clamp(power, 0.0, 1.0);
  return ids * std::pow(static_cast<double>(rows_all) / rows, power);
}

absl::StatusOr<IdSample> SampleIds(const Plan& plan, const SampleSource& source, int64_t rows_max) {
  ASSIGN_OR_RETURN(std::unique_ptr<FeatureCompiler> compiler,
                   FeatureCompiler::Create(plan.features));
  const int64_t rows_all = std::min(rows_max, source.rows());
  const int64_t step = std::max<int64_t>(1, plan.job.data().batch());
  std::vector<Seen> seen = SeenOf(plan.tables);
  IdSample sample;
  sample.tables.resize(seen.size());
  Batch batch;
  std::vector<BadRow> bad;
  std::vector<int64_t> rows;
  for (int s = 0; s < source.splits().size() && sample.rows < rows_all; ++s) {
    ASSIGN_OR_RETURN(ColumnBatch columns, source.Read(s, compiler->Columns()));
    RETURN_IF_ERROR(FormRequests(compiler->features(), &columns));
    for (int64_t i = 0; i < columns.rows && sample.rows < rows_all; i += step) {
      rows.clear();
      for (int64_t r = i; r < std::min(columns.rows, i + step); ++r) rows.push_back(r);
      RETURN_IF_ERROR(compiler->Compile(columns, rows, /*with_labels=*/true, &batch, &bad));
      sample.rows += static_cast<int64_t>(rows.size());
      sample.batch_bytes = std::max(sample.batch_bytes, BytesOf(batch));
      for (size_t t = 0; t < seen.size(); ++t) {
        seen[t].Add(batch.tables[t]);
        DistinctIds& d = sample.tables[t];
        d.ids_batch = std::max(d.ids_batch, std::ssize(batch.tables[t].ids));
        d.rows = sample.rows;
        d.ids = seen[t].admitted;
        if (2 * sample.rows <= rows_all || d.rows_half == 0) {
          d.rows_half = d.rows;
          d.ids_half = d.ids;
        }
      }
    }
  }
  sample.bad_rows = static_cast<int64_t>(bad.size());
  return sample;
}

}  // namespace starling
