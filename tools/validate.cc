// starling validate: reads a job as `train` would, holds it against its data,
// and says what it will cost.
#include <gflags/gflags.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "dense_net/forward.h"
#include "embedding_store/row_layout.h"
#include "embedding_store/row_slab.h"
#include "sample_io/mixing.h"
#include "sample_io/pass_order.h"
#include "tools/flags.h"
#include "tools/job.h"
#include "tools/memory_estimate.h"
#include "tools/sample.h"
#include "tools/verbs.h"

DEFINE_bool(schema, false, "print the JSON Schema of job files, and nothing else");

namespace starling {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kIndexBytes = 8;        // About what the index needs for a row.
constexpr int64_t kSampleRows = 200'000;  // Read for the estimate of distinct ids.

std::string Bytes(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int u = 0;
  for (; bytes >= 1024 && u < 4; ++u) bytes /= 1024;
  return absl::StrFormat(u == 0 ? "%.0f %s" : "%.1f %s", bytes, units[u]);
}

// How many of the two parts' rows so many ids fill.
double MultiHashRows(const MultiHashOptions& options, double ids) {
  const auto n = static_cast<double>(options.rows());
  return -2 * n * std::expm1(ids * std::log1p(-1 / n));
}

absl::StatusOr<Json> DescribeTable(const TableSpec& spec, const DistinctIds& distinct,
                                   int64_t rows_all) {
  ASSIGN_OR_RETURN(RowLayout layout, RowLayout::Create(spec));
  const int64_t per_row = int64_t{sizeof(RowHeader)} + layout.body_bytes() + kIndexBytes;
  double rows = distinct.Extrapolate(rows_all);
  if (spec.options().has_multi_hash()) rows = MultiHashRows(spec.options().multi_hash(), rows);
  const double taken = std::max(rows, static_cast<double>(spec.options().rows_expected()));
  return Json{{"name", spec.options().name()},
              {"rows_estimate", static_cast<int64_t>(rows)},
              {"bytes_per_row", per_row},
              {"dtype", absl::AsciiStrToLower(TableOptions::Dtype_Name(spec.options().dtype()))},
              {"weights_per_row", layout.width()},
              {"state_per_row", layout.state_size()},
              {"bytes_estimate", static_cast<int64_t>(taken * static_cast<double>(per_row))},
              {"memory_budget", spec.options().memory()}};
}

// How the order of the first pass mixes the partitions of the data.
Json DescribeMixing(const Plan& plan, const SampleSource& source) {
  const Mixing mixing = MixingOf(
      source.splits(),
      SplitOrder(source.splits().size(), plan.job.data().shuffle(), plan.job.train().seed(), 0));
  return {{"partitions", mixing.partitions},
          {"order_correlation", mixing.order_correlation},
          {"same_share", mixing.same_share},
          {"chance_share", mixing.chance_share},
          {"poor", mixing.poor()}};
}

void PrintMixing(const Json& mixing) {
  if (mixing["partitions"].get<int>() < 2) return;
  std::printf(
      "  order    %d partitions %s (correlation with the order %.2f; %.0f %% of splits follow "
      "one of their own, by chance %.0f %%)\n",
      mixing["partitions"].get<int>(),
      mixing["poor"].get<bool>() ? "are POORLY MIXED: set data.shuffle" : "are mixed",
      mixing["order_correlation"].get<double>(), 100 * mixing["same_share"].get<double>(),
      100 * mixing["chance_share"].get<double>());
}

Json DescribeSource(const SampleSource& source) {
  std::string last;
  int files = 0;
  int64_t parts_cut = 0, split_bytes_max = 0;
  for (const Split& split : source.splits()) {
    files += split.file != last;
    last = split.file;
    parts_cut += split.begin == 0 && split.rows < split.part_rows;
    split_bytes_max = std::max(split_bytes_max, split.bytes);
  }
  return {{"files", files},
          {"splits", source.splits().size()},
          {"rows", source.rows()},
          {"parts_cut", parts_cut},
          {"split_bytes_max", split_bytes_max},
          {"read_memory", source.read_memory()}};
}

Json DescribeMemory(const MemoryEstimate& memory) {
  return {{"resident_estimate", memory.total()}, {"tables", memory.tables},
          {"reading", memory.reading},           {"steps", memory.steps},
          {"network", memory.network},           {"process", memory.process}};
}

void PrintMemory(const Json& memory) {
  const auto bytes = [&](const char* part) { return Bytes(memory[part].get<double>()); };
  std::printf(
      "  memory   about %s resident: tables %s, reading ahead %s, batches and their rows %s, "
      "network %s, program %s\n",
      bytes("resident_estimate").c_str(), bytes("tables").c_str(), bytes("reading").c_str(),
      bytes("steps").c_str(), bytes("network").c_str(), bytes("process").c_str());
}

absl::StatusOr<Json> Describe(const LoadedJob& job) {
  const Plan& plan = job.plan;
  NetworkOptions options{plan.job.train().tile(), plan.job.train().lanes()};
  ASSIGN_OR_RETURN(std::unique_ptr<Network> network, Network::Create(plan.graph, options));
  ASSIGN_OR_RETURN(IdSample sample, SampleIds(plan, *job.train, kSampleRows));
  Json out = {{"config", FLAGS_config},
              {"job", plan.job.name()},
              {"train", DescribeSource(*job.train)},
              {"id_features", plan.features.ids_size()},
              {"raw_features", plan.features.raws_size()},
              {"sample_rows", sample.rows},
              {"sample_bad_rows", sample.bad_rows},
              {"tables", Json::array()}};
  out["mixing"] = DescribeMixing(plan, *job.train);
  if (job.eval != nullptr) out["eval"] = DescribeSource(*job.eval);
  int64_t table_bytes = 0;
  for (int t = 0; t < plan.tables.tables_size(); ++t) {
    ASSIGN_OR_RETURN(Json table,
                     DescribeTable(plan.tables.tables(t), sample.tables[t], job.train->rows()));
    table_bytes +=
        std::min(table["bytes_estimate"].get<int64_t>(), table["memory_budget"].get<int64_t>());
    out["tables"].push_back(std::move(table));
  }
  out["memory"] = DescribeMemory(EstimateMemory(plan, *job.train, sample, *network, table_bytes));
  out["dense_parameters"] = network->param_floats();
  const auto& devices = plan.job.train().devices();
  if (!devices.empty()) out["devices"] = std::vector<std::string>(devices.begin(), devices.end());
  out["tiles"] = (plan.job.data().batch() - 1) / options.tile + 1;
  out["gemm_flops_forward"] = network->gemm_flops_forward();
  out["gemm_flops_train"] = network->gemm_flops_train();
  out["element_flops_forward"] = network->element_flops_forward();
  out["element_flops_train"] = network->element_flops_train();
  return out;
}

void PrintSource(const Json& report, const char* part) {
  if (!report.contains(part)) return;
  const Json& s = report[part];
  std::printf("  %-8s %s rows in %d files, %d splits of %s at most\n", part,
              WithCommas(s["rows"].get<int64_t>()).c_str(), s["files"].get<int>(),
              s["splits"].get<int>(), Bytes(s["split_bytes_max"].get<double>()).c_str());
  if (s["parts_cut"].get<int64_t>() == 0) return;
  std::printf("           %s row groups are read in pieces, to fit data.read_memory of %s\n",
              WithCommas(s["parts_cut"].get<int64_t>()).c_str(),
              Bytes(s["read_memory"].get<double>()).c_str());
}

void PrintReport(const Json& report) {
  std::printf("%s: ok\n", FLAGS_config.c_str());
  PrintSource(report, "train");
  PrintSource(report, "eval");
  PrintMixing(report["mixing"]);
  std::printf("  features %d id, %d raw\n", report["id_features"].get<int>(),
              report["raw_features"].get<int>());
  for (const Json& t : report["tables"]) {
    std::printf("  table    %s: about %s rows x %d bytes (%s) = %s (budget %s)\n",
                t["name"].get<std::string>().c_str(),
                WithCommas(t["rows_estimate"].get<int64_t>()).c_str(),
                t["bytes_per_row"].get<int>(), t["dtype"].get<std::string>().c_str(),
                Bytes(t["bytes_estimate"].get<double>()).c_str(),
                Bytes(t["memory_budget"].get<double>()).c_str());
  }
  std::printf("  dense    %s parameters\n",
              WithCommas(report["dense_parameters"].get<int64_t>()).c_str());
  PrintMemory(report["memory"]);
  if (report.contains("devices") && report["devices"].size() > 1) {
    std::printf("  devices  %s: a replica on each, the %d tiles of a batch divided among them\n",
                absl::StrJoin(report["devices"].get<std::vector<std::string>>(), ", ").c_str(),
                report["tiles"].get<int>());
  }
  for (const auto& [kind, what] :
       {std::pair("gemm", "in matrix products"), std::pair("element", "beside them")}) {
    auto count = [&, kind = kind](const char* pass) {
      return WithCommas(report[absl::StrCat(kind, "_flops_", pass)].get<int64_t>());
    };
    std::printf("  FLOPs    %s a sample to score, %s to train %s\n", count("forward").c_str(),
                count("train").c_str(), what);
  }
  std::printf(
      "Rows are an estimate from %s rows, grown to one pass over the data by the rate at which\n"
      "new ids came; eviction is not counted.\n",
      WithCommas(report["sample_rows"].get<int64_t>()).c_str());
  if (report["sample_bad_rows"].get<int64_t>() > 0) {
    std::printf("%s rows of the sample are bad and would be quarantined.\n",
                WithCommas(report["sample_bad_rows"].get<int64_t>()).c_str());
  }
}

absl::Status RunValidate(const VerbCall& call) {
  if (FLAGS_schema) {
    std::printf("%s", JsonSchema(*Job::descriptor()).c_str());
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(LoadedJob job, LoadJob(call));
  ASSIGN_OR_RETURN(Json report, Describe(job));
  if (FLAGS_json) {
    std::printf("%s\n", report.dump().c_str());
  } else {
    PrintReport(report);
  }
  return absl::OkStatus();
}

}  // namespace

Verb ValidateVerb() {
  return {
      "validate",
      "Check a job against its data, and estimate rows, bytes and FLOPs",
      "starling validate --config job.yaml [--set a.b=v] [--json]    starling validate --schema",
      {"config", "set", "schema", "json"},
      RunValidate};
}

}  // namespace starling
