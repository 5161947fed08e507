#include "scheduler/explain.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace starling {
namespace {

constexpr double kWaits = 0.10;   // Of the run: waiting worth a word.
constexpr double kIdle = 0.85;    // Work below this share of the cores' time: some stand idle.
constexpr double kMisses = 0.02;  // Of ids that are read from disk.

StageRecord StageOf(const RunRecord& run, const std::string& name) {
  for (const StageRecord& stage : run.stages()) {
    if (stage.name() == name) return stage;
  }
  return {};
}

// Not inlined: GCC 12 sees overreads in literals that become strings there.
[[gnu::noinline]] void Advise(Explanation* out, absl::string_view line) {
  out->advice.emplace_back(line);
}

double Share(double part, double whole) { return whole > 0 ? part / whole : 0; }
std::string Percent(double share) { return absl::StrFormat("%.0f %%", 100 * share); }

// Steps wait for batches.
void ExplainReading(const RunRecord& run, Explanation* out) {
  const double reading = StageOf(run, "read").busy(), compiling = StageOf(run, "compile").busy();
  const double readers = std::max(1, run.read_threads());
  const double compilers = readers + std::clamp<double>(run.threads() - 1, 0, readers);
  const double busy = std::max(Share(reading, run.train_seconds() * readers),
                               Share(reading + compiling, run.train_seconds() * compilers));
  out->bottleneck = compiling > reading ? "compile" : "read";
  out->why = absl::StrFormat(
      "steps waited %s of the time for a batch, while what reads and compiles was busy %s of it",
      Percent(Share(run.step_wait_read(), run.train_seconds())), Percent(busy));
  if (busy > 0.7 && run.read_threads() < run.cores()) {
    Advise(out, absl::StrFormat("train.read_threads: %d (now %d; the machine has %d cores)",
                                run.read_threads() + 1, run.read_threads(), run.cores()));
  }
  if (compiling > reading) {
    Advise(
        out,
        "features: strings, crosses and expressions cost the most; hash or bucketize them when the "
        "logs are written");
  } else if (busy > 0.7) {
    Advise(
        out,
        "files: zstd or gzip pages cost more to unpack than snappy; dictionary pages of ids cost "
        "the least");
  } else {
    Advise(out,
           "the threads waited for the files themselves: put data.train on a faster disk or "
           "nearer, or "
           "read fewer columns");
  }
}

void AddTableAdvice(const RunRecord& run, Explanation* out) {
  for (const TableRecord& table : run.tables()) {
    const double hits = static_cast<double>(table.hits_memory() + table.hits_cold());
    const double cold = Share(static_cast<double>(table.hits_cold()), hits);
    if (cold < kMisses) continue;
    Advise(out, absl::StrFormat("table %s: %s of its ids were read from disk; give it more than "
                                "memory: %dMiB (%d of %d "
                                "rows fit now)",
                                table.name(), Percent(cold), table.memory() >> 20,
                                table.rows_memory(), table.rows_memory() + table.rows_cold()));
  }
}

void AddBatchAdvice(const RunRecord& run, Explanation* out) {
  const double rows = Share(static_cast<double>(run.samples()), static_cast<double>(run.steps()));
  if (run.splits() > 0 && run.steps() > 0 && rows < 0.8 * run.batch()) {
    Advise(out, absl::StrFormat("files: batches hold %.0f rows of %d, since a batch ends with its "
                                "row group; write larger "
                                "row groups",
                                rows, run.batch()));
  }
  const int tiles = (run.batch() + run.tile() - 1) / std::max(1, run.tile());
  if (tiles < 2 * run.threads()) {
    Advise(out,
           absl::StrFormat(
               "data.batch: %d (now %d: its %d tile(s) of %d rows do not keep %d threads busy)",
               2 * run.threads() * run.tile(), run.batch(), tiles, run.tile(), run.threads()));
  }
}

// The stage with the most work.
void ExplainWork(const RunRecord& run, double work, Explanation* out) {
  StageRecord most;
  for (const StageRecord& stage : run.stages()) {
    if (stage.name() != "eval" && stage.busy() > most.busy()) most = stage;
  }
  out->bottleneck = most.name();
  out->why =
      absl::StrFormat("%s is %s of the work, and %s of the cores' time was work", most.name(),
                      Percent(Share(most.busy(), work)), Percent(out->work_share));
  const bool rows = most.name() == "pull" || most.name() == "push" || most.name() == "prefetch";
  AddTableAdvice(run, out);
  if (rows) {
    double created = 0, hits = 0;
    for (const TableRecord& table : run.tables()) {
      created += static_cast<double>(table.created());
      hits += static_cast<double>(table.hits_memory() + table.hits_cold());
    }
    if (Share(created, hits + created) > 0.05) {
      Advise(out, absl::StrFormat("%s of the ids were new: an admission rule (table.admission) "
                                  "keeps those seen once out",
                                  Percent(Share(created, hits + created))));
    }
    Advise(out, "a larger data.batch touches a row once for more samples");
  }
  if (out->work_share < kIdle) AddBatchAdvice(run, out);
  if (run.threads() < run.cores()) {
    Advise(out,
           absl::StrFormat("train.threads: auto (now %d of %d cores)", run.threads(), run.cores()));
  }
  const bool waits = Share(run.step_copy(), run.train_seconds()) > kWaits;
  if (run.devices_size() > 1 && (waits || most.name() == "copy")) {
    Advise(out, absl::StrFormat("train.devices: steps waited %s of the time for copies to %d "
                                "devices; CPUs of one machine gain nothing over the host alone, "
                                "and train.staleness: 1 copies beside the step before",
                                Percent(Share(run.step_copy(), run.train_seconds())),
                                run.devices_size()));
  }
  if (out->work_share < kIdle && out->advice.empty()) {
    Advise(out,
           "the rest of the cores' time was nobody's here, or other programs': `train --trace "
           "out.json` shows the gaps, a longer run fewer of them");
  }
  if (most.name() == "compute" && out->work_share >= kIdle) {
    Advise(out,
           "the cores are full of the network's products: a smaller model, more cores, or more "
           "workers "
           "(`starling launch`)");
  }
}

}  // namespace

Explanation Explain(const RunRecord& run) {
  Explanation out;
  double work = 0;
  for (const StageRecord& stage : run.stages()) {
    if (stage.name() != "eval") work += stage.busy();
  }
  const double seconds = run.train_seconds();
  out.work_share = Share(work, seconds * std::max(1, run.cores()));
  if (run.steps() == 0) {
    out.bottleneck = "none";
    out.why = "the run made no step";
  } else if (Share(run.checkpoint_seconds(), seconds) > kWaits) {
    out.bottleneck = "checkpoint";
    out.why = absl::StrFormat("steps waited %.1f s for checkpoints, %s of the training time",
                              run.checkpoint_seconds(),
                              Percent(Share(run.checkpoint_seconds(), seconds)));
    Advise(&out, "train.checkpoint.every: a longer time between checkpoints");
    Advise(&out, "train.checkpoint.pace: a larger one, if the disk can take it");
  } else if (Share(run.step_wait_read(), seconds) > kWaits) {
    ExplainReading(run, &out);
    AddBatchAdvice(run, &out);
  } else {
    ExplainWork(run, work, &out);
  }
  return out;
}

}  // namespace starling
