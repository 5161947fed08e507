// Small random networks and batches for the tests of this folder: two tables of
// two slots each, of all shapes a batch can have (several values an entry,
// weights, empty entries, a slot on the request axis), and for models that read
// sequences one of two slots, `s0` and `s1`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "dense_net/forward.h"

namespace starling {

struct WorldOptions {
  int rows = 9;
  int dim = 3;
  int raws = 2;
  int ids = 7;           // Of each table.
  bool requests = true;  // Some rows share a request.
  uint64_t seed = 1;
};

struct World {
  GraphSpec spec;
  Batch batch;
  std::vector<std::vector<Real>> rows;
};

// `model` is text format, such as "deepfm { hidden: 5 }".
ModelOptions ParseModel(const std::string& model);
// Model and tasks: "MODEL | TASK | TASK". Tasks read labels y0 and y1.
void ParseSpec(const std::string& text, GraphSpec* spec);
// With tasks, rows have two labels, weights and groups. `model` as in ParseSpec.
World MakeWorld(const std::string& model, const WorldOptions& options);
// Rows [first, first + count) of a batch, with the same unique ids.
Batch SubBatch(const Batch& batch, uint32_t first, uint32_t count);
// Fills each table's occurrences from its slots.
void LinkOccurrences(Batch* batch);

std::unique_ptr<Network> MakeNetwork(const GraphSpec& spec, const NetworkOptions& options = {});
// Parameters that leave no op at a special point: random, variances positive.
std::vector<Real> RandomParams(const Network& network, uint64_t seed);

struct TrainResult {
  double loss = 0;
  std::vector<Real> scores, param_grads;
  std::vector<std::vector<Real>> row_grads;
};
absl::StatusOr<TrainResult> RunTrain(const Network& network, const World& world,
                                     const std::vector<Real>& params, uint64_t step_seed = 5,
                                     ThreadPool* pool = nullptr, Workspace* workspace = nullptr);
std::vector<Real> RunScore(const Network& network, const Batch& batch,
                           const std::vector<std::vector<Real>>& rows,
                           const std::vector<Real>& params, ThreadPool* pool = nullptr);

}  // namespace starling
