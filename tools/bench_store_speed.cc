// bench store: lookup and apply beside bare memory, and how the cost of an id
// grows with the table.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "base/status.h"
#include "tools/bench.h"
#include "tools/bench_store.h"
#include "tools/bench_store_bare.h"

namespace starling {
namespace {

using Batches = std::vector<std::vector<IdBatch>>;  // [thread][batch]
using Places = std::vector<std::vector<std::vector<uint32_t>>>;

// Average cache lines that bytes [first, end) of a row touch, rows standing
// one behind the other at any multiple of four bytes.
double LinesOf(int first, int end) {
  double lines = 0;
  for (int start = 0; start < 64; start += 4)
    lines += (start + end - 1) / 64 - (start + first) / 64 + 1;
  return lines / 16;
}
constexpr int kHeader = 20, kWeightsEnd = kHeader + 4 * kBenchDim;
constexpr int kRowEnd = kWeightsEnd + 4 * kBenchDim;

// One way to serve a batch; `batch` is its number, buffers are the thread's own.
struct Way {
  std::string name;
  std::function<absl::Status(int thread, int batch, float* out)> run;
  std::vector<double> rates;  // Ids/s, one an alternation.
};

// All ways in turn, each over the same batches of an alternation. What the caches have of the way
// before, page tables included, is gone when the time begins to count.
absl::Status Measure(const StoreBench& bench, std::vector<Way>* ways) {
  std::vector<std::vector<float>> out(kStoreThreads);
  for (auto& o : out) o.assign(static_cast<size_t>(bench.batch_ids) * kBenchDim, 0.001f);
  const auto run_calls = [&](const Way& way, int first, int calls) {
    return RunThreads(kStoreThreads, [&](int t) {
      for (int c = first; c < first + calls; ++c) {
        RETURN_IF_ERROR(way.run(t, c % bench.batches, out[t].data()));
      }
      return absl::OkStatus();
    });
  };
  for (int a = -1; a < bench.alternations; ++a) {  // The first is to warm up.
    for (Way& way : *ways) {
      const int first = (a + 1) * (bench.warm + bench.calls);
      RETURN_IF_ERROR(run_calls(way, first, bench.warm).status());
      ASSIGN_OR_RETURN(double seconds, run_calls(way, first + bench.warm, bench.calls));
      double ids = static_cast<double>(kStoreThreads) * bench.calls * bench.batch_ids;
      if (a >= 0) way.rates.push_back(ids / seconds);
    }
  }
  return absl::OkStatus();
}

// And makes the bare rows ready for such batches.
Places PlacesOf(const Batches& batches, BareRows* bare) {
  Places places(batches.size());
  for (size_t t = 0; t < batches.size(); ++t) {
    for (const IdBatch& batch : batches[t]) {
      std::vector<uint32_t>& p = places[t].emplace_back();
      for (uint32_t row : batch.rows) p.push_back(bare->PlaceOf(row));
    }
  }
  bare->TakeFasterForm(places[0]);
  return places;
}

Way TableLookup(const EmbeddingTable* table, const Batches& batches) {
  return {"table",
          [table, &batches](int t, int b, float* out) {
            const IdBatch& batch = batches[t][b];
            return table->Lookup(batch.ids, {out, batch.ids.size() * kBenchDim});
          },
          {}};
}

Way LineGather(const BareRows& bare, const Places& places) {
  return {"bare bucket line + row gather",
          [&](int t, int b, float* out) {
            bare.LineGather(places[t][b], out);
            return absl::OkStatus();
          },
          {}};
}

std::string CaseText(const StoreBench& bench, Draw draw, const std::string& rule) {
  return absl::StrCat(NameOf(draw), " ", RowsText(bench.rows), " x 16, ", rule, ", 2 threads");
}

void ReportRates(const std::string& name, const std::string& what, const Way& value,
                 const Way& reference, double bound) {
  Report({name, what, "ids/s", reference.name, value.rates, reference.rates, bound});
}

absl::Status ApplyWays(const StoreBench& bench, EmbeddingTable* table, Draw draw, BareRows* bare,
                       AbslTable* absl_table) {
  const Batches batches = DrawBatches(bench, draw, bench.rows);
  const Places places = PlacesOf(batches, bare);
  std::vector<Way> ways;
  const std::vector<float> grads(static_cast<size_t>(bench.batch_ids) * kBenchDim, 0.001f);
  std::vector<std::vector<uint32_t>> found(kStoreThreads);
  ways.push_back({"table",
                  [&](int t, int b, float* out) {
                    const IdBatch& batch = batches[t][b];
                    std::span<float> weights(out, batch.ids.size() * kBenchDim);
                    found[t].resize(batch.ids.size());
                    RETURN_IF_ERROR(
                        table->LookupOrCreate(batch.ids, batch.counts, {}, weights, found[t]));
                    return table->ApplyGradients(batch.ids, grads, 1, found[t]);
                  },
                  {}});
  ways.push_back({"bare bucket line + gather, bucket line + modify + scatter",
                  [&](int t, int b, float* out) {
                    bare->LineGather(places[t][b], out);
                    bare->LineAdagrad(places[t][b], grads.data());
                    return absl::OkStatus();
                  },
                  {}});
  ways.push_back({"the same, bucket line read once",
                  [&](int t, int b, float* out) {
                    bare->LineGather(places[t][b], out);
                    bare->Adagrad(batches[t][b].rows, grads.data());
                    return absl::OkStatus();
                  },
                  {}});
  if (absl_table != nullptr) {
    ways.push_back({"absl::flat_hash_map table",
                    [&](int t, int b, float* out) {
                      absl_table->LookupOrCreate(batches[t][b].ids, out);
                      absl_table->Adagrad(batches[t][b].ids, grads.data());
                      return absl::OkStatus();
                    },
                    {}});
  }
  RETURN_IF_ERROR(Measure(bench, &ways));
  // The table also reads and writes a row's header, before the weights; its index once alone.
  const double ours = 1 + LinesOf(0, kWeightsEnd) + LinesOf(0, kRowEnd);
  const double bare_lines = LinesOf(kHeader, kWeightsEnd) + LinesOf(kHeader, kRowEnd);
  const std::string what = CaseText(bench, draw, "adagrad");
  ReportRates("store.apply", what, ways[0], ways[1], (2 + bare_lines) / ours);
  ReportRates("store.apply", what, ways[0], ways[2], (1 + bare_lines) / ours);
  if (absl_table != nullptr) ReportRates("store.apply", what, ways[0], ways[3], 0);
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchStoreLookup(const StoreBench& bench, EmbeddingTable* table) {
  if (!HasMemory("store.lookup", BareRows::Bytes(bench.rows, kBenchDim))) return absl::OkStatus();
  const int64_t table_huge = HugePageBytes();
  BareRows bare(bench.rows, kBenchDim);
  const double bare_bytes = static_cast<double>(BareRows::Bytes(bench.rows, kBenchDim));
  // A kernel short of huge pages gives small ones, to the table or to its reference.
  ReportFigures("store.pages", absl::StrCat(RowsText(bench.rows), " x 16, adagrad"),
                {{"table_huge_page_bytes", static_cast<double>(table_huge)},
                 {"bare_huge_page_bytes", static_cast<double>(HugePageBytes() - table_huge)},
                 {"bare_bytes", bare_bytes}});
  for (Draw draw : {Draw::kUniform, Draw::kZipf}) {
    const Batches batches = DrawBatches(bench, draw, bench.rows);
    const Places places = PlacesOf(batches, &bare);
    std::vector<Way> ways = {TableLookup(table, batches),
                             {"bare gather",
                              [&](int t, int b, float* out) {
                                bare.Gather(batches[t][b].rows, out);
                                return absl::OkStatus();
                              },
                              {}},
                             LineGather(bare, places)};
    RETURN_IF_ERROR(Measure(bench, &ways));
    // The table also reads the id, before the weights.
    const double ours = 1 + LinesOf(kHeader - 8, kWeightsEnd), row = LinesOf(kHeader, kWeightsEnd);
    const std::string what = CaseText(bench, draw, "adagrad");
    ReportRates("store.lookup", what, ways[0], ways[1], row / ours);
    ReportRates("store.lookup", what, ways[0], ways[2], (1 + row) / ours);
  }
  return absl::OkStatus();
}

absl::Status BenchStoreApply(const StoreBench& bench, EmbeddingTable* table) {
  if (!HasMemory("store.apply", BareRows::Bytes(bench.rows, kBenchDim))) return absl::OkStatus();
  BareRows bare(bench.rows, kBenchDim);
  std::unique_ptr<AbslTable> absl_table;
  if (HasMemory("store.apply's flat_hash_map table", bench.rows * (128 + 40))) {
    absl_table = std::make_unique<AbslTable>(bench.rows);
    std::vector<uint64_t> ids;
    std::vector<float> weights(static_cast<size_t>(bench.batch_ids) * kBenchDim);
    for (int64_t row = 0; row < bench.rows; row += bench.batch_ids) {
      ids.clear();
      for (int64_t r = row; r < std::min(bench.rows, row + bench.batch_ids); ++r) {
        ids.push_back(IdOfRow(r));
      }
      std::sort(ids.begin(), ids.end(), IdBefore);
      absl_table->LookupOrCreate(ids, weights.data());
    }
  }
  for (Draw draw : {Draw::kUniform, Draw::kZipf}) {
    RETURN_IF_ERROR(ApplyWays(bench, table, draw, &bare, absl_table.get()));
  }
  return absl::OkStatus();
}

absl::Status BenchStoreScale(const StoreBench& bench) {
  const int64_t sizes[] = {bench.rows / 2, bench.rows * 5};
  ASSIGN_OR_RETURN(const RowLayout layout, RowLayout::Create(StoreSpec(Rule::kSmallest)));
  const int state = layout.state_size();
  const int64_t needed =
      BareRows::Bytes(sizes[1], state) + sizes[1] * (4 * (kBenchDim + state) + 28);
  if (!HasMemory("store.scale", needed + (int64_t{1} << 30))) return absl::OkStatus();
  BareRows bare(sizes[1], state);
  const std::string rule = state == kBenchDim ? "adagrad" : "rowwise_adagrad";
  constexpr Draw kDraws[] = {Draw::kUniform, Draw::kZipf};
  std::vector<double> table_ns[2][2], bare_ns[2][2];  // [draw][size]
  for (int s = 0; s < 2; ++s) {
    ASSIGN_OR_RETURN(const std::unique_ptr<EmbeddingTable> table,
                     OpenExpecting(Rule::kSmallest, sizes[s]));
    RETURN_IF_ERROR(Fill(table.get(), 0, sizes[s], bench.batch_ids));
    bare.Index(sizes[s]);
    for (int d = 0; d < 2; ++d) {
      StoreBench sized = bench;
      sized.rows = sizes[s];
      const Batches batches = DrawBatches(sized, kDraws[d], sizes[s]);
      const Places places = PlacesOf(batches, &bare);
      std::vector<Way> ways = {TableLookup(table.get(), batches), LineGather(bare, places)};
      RETURN_IF_ERROR(Measure(sized, &ways));
      ReportRates("store.scale.lookup", CaseText(sized, kDraws[d], rule), ways[0], ways[1], 0);
      for (double rate : ways[0].rates) table_ns[d][s].push_back(1e9 / rate);
      for (double rate : ways[1].rates) bare_ns[d][s].push_back(1e9 / rate);
    }
  }
  for (int d = 0; d < 2; ++d) {
    BenchResult growth{"store.scale",
                       absl::StrCat(NameOf(kDraws[d]), " lookup, cost of an id at ",
                                    RowsText(sizes[1]), " rows by that at ", RowsText(sizes[0])),
                       "times",
                       "growth of the bare bucket line + row gather",
                       {},
                       {},
                       0};
    for (int a = 0; a < bench.alternations; ++a) {
      growth.values.push_back(table_ns[d][1][a] / table_ns[d][0][a]);
      growth.reference_values.push_back(bare_ns[d][1][a] / bare_ns[d][0][a]);
    }
    Report(growth);
  }
  return absl::OkStatus();
}

}  // namespace starling
