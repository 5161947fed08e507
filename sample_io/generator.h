// Generate: a data set of our own, with the truth beside it. Rows come from a
// PlantedModel; files are Hive-partitioned Parquet:
//
//   DIR/train/ds=20240101/part-0000.parquet   one directory a day
//   DIR/eval/ds=…/part-0000.parquet           the days after
//   DIR/TRUTH.json                            what the best model could reach
//
// With `impressions` above 1, rows come in requests of so many, whose user's
// columns are equal (I1..I12, C1..C23, user); a column `request` numbers them,
// and the same rows are written a second time, a request a row:
//
//   DIR/train_nested/ds=…/part-0000.parquet   and eval_nested: request, a struct
//                                             `user`, a list of structs `impressions`
//
// With `sequence` above 0 there are also `item` and `category` of the impression
// and, of the user, `seen_item` and `seen_category`: lists of one length, up to so
// many events, that bear on the click (PlantedSequence).
//
// With `conversions`, `conversion` (int32) is 1 in some of the clicked rows (PlantedConversion).
//
// Columns: click (int32), ts (timestamp, ascending within a day), user
// (int64, for GAUC; has no effect), I1..I13 (double), C1..C26 (int64). Of the
// industrial shape, instead of I and C: S1..S80 (int64) and L1..L20 (lists of
// int64). The same options give the same rows, whatever the threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace starling {

enum class DataShape {
  kClicks,      // PlantedModel: laws that a small run can learn, nulls.
  kCriteo,      // PlantedModel with laws of its own for every field, nothing null.
  kIndustrial,  // PlantedSlots: 100 slots, some 480 ids a row.
};

struct GeneratorOptions {
  std::string out;  // DIR. Appears only when all of it is written.
  DataShape shape = DataShape::kClicks;
  std::string laws;  // Of kCriteo: a file of them (tests/bench/peers/fit_shares.py); "": ours.
  int64_t rows = 1'000'000;  // To train on, spread evenly over the days.
  int64_t eval_rows = 200'000;
  int days = 7;
  int eval_days = 1;
  uint64_t seed = 1;
  int threads = 0;  // 0: one per core.
  int row_group_rows = 65536;
  int impressions = 1;       // Rows of a request.
  bool conversions = false;  // A second label, and its truth.
  int sequence = 0;          // Most events that a user has seen; 0: none of these columns.
  bool overwrite = false;    // Replace DIR, if it is a data set of Generate's.
};

// Of the written rows, by their true probabilities: no model does better, but for luck.
struct PartTruth {
  int64_t rows = 0, clicks = 0;
  double auc = 0.5, logloss = 0;
};
// Of the Criteo shape, one a field: unique ids in batches of 4,096 rows, as a share.
struct FieldShares {
  double written = 0, fitted = 0;  // Of these rows, and of the log that laws were fitted to, or 0.
};
struct GeneratorReport {
  PartTruth train, eval;                          // Of clicks,
  PartTruth train_conversions, eval_conversions;  // and of conversions, if asked for, on all rows.
  std::vector<FieldShares> shares;                // C1 first; none without a whole batch.
  std::string json;                               // As in TRUTH.json.
};

// InvalidArgument for bad options, AlreadyExists if DIR is there. After an
// error nothing is left behind.
absl::StatusOr<GeneratorReport> Generate(const GeneratorOptions& options);

}  // namespace starling
