// What the verbs that work on a job share: the config read and checked against
// its data, signals, and the closing table.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/yaml_proto.h"
#include "sample_io/source.h"
#include "scheduler/evaluation.h"
#include "scheduler/plan.h"
#include "tools/verb.h"

namespace starling {

struct LoadedJob {
  Plan plan;
  SourceMap map;
  std::unique_ptr<SampleSource> train;
  std::unique_ptr<SampleSource> eval;  // Null if the job names none.
};

// Reads --config with --set, opens the data and checks its schema.
absl::StatusOr<LoadedJob> LoadJob(const VerbCall& call);
// Opens data under the job's `where` and checks its schema. Mistakes in the
// config are told with their line; notes on differing files go to stderr.
absl::StatusOr<std::unique_ptr<SampleSource>> OpenData(const Plan& plan, const SourceMap& map,
                                                       const std::vector<std::string>& patterns);
// Tells on stderr how the files of a set differ, a line a column.
void PrintNotes(const SampleSource& source);
// "3 files and 12 parts passed over unread; 1,000 of 5,000 rows read match"
std::string WhereText(const SourceCounts& counts);

// True once SIGINT or SIGTERM came; installs the handlers on the first call.
// A second signal ends the process at once.
const std::atomic<bool>* StopRequested();

// Prints name and value in two columns to stderr.
void PrintTable(const std::vector<std::pair<std::string, std::string>>& rows);

// "1,234,567".
std::string WithCommas(int64_t n);

// The rows of an evaluation for PrintTable, output by output.
std::vector<std::pair<std::string, std::string>> EvalRows(const std::vector<EvalMetrics>& metrics);

}  // namespace starling
