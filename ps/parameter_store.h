// ParameterStore: what one server owns — its share of every table, on the
// first server also the dense parameters, and the window of batch names
// already applied. In one process the trainer uses it directly; `starling ps`
// puts it behind RPC.
//
// Thread safety: any method, any thread, but StartCut and Save: no Push and no
// PullRows that creates may be under way when they are called, or the state
// is not one instant.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/batch_name.h"
#include "embedding_store/embedding_table.h"
#include "ps/ps.pb.h"
#include "ps/store_cut.h"

namespace starling {

// The ids of one table in one call. Spans of `ids`' length; all others may be
// empty.
struct TableKeys {
  std::span<const uint64_t> ids;
  std::span<const uint32_t> counts;
  std::span<const int64_t> event_times;
  // The caller's memory, in which a pull that creates leaves for the push of the same keys where
  // rows are (see EmbeddingTable). Remote calls leave it alone.
  std::span<uint32_t> places;
};

// How a pull treats unknown ids.
enum class PullMode { kCreate, kReadOnly };

class ParameterStore : public CutSource {
 public:
  // `config` names tables, dense parameters and their optimiser; see ps.proto.
  // `shard` of `shards` decides which rows Load keeps and who owns the dense part (shard 0).
  // Tables split large batches over `pool` (not owned), which changes no result.
  static absl::StatusOr<std::unique_ptr<ParameterStore>> Create(const StoreConfig& config,
                                                                int shard, int shards,
                                                                const std::string& scratch_dir,
                                                                ThreadPool* pool = nullptr);

  virtual const StoreConfig& config() const = 0;
  virtual int shard() const = 0;
  virtual int shards() const = 0;

  // tables[t] and weights[t] belong to table t; weights[t] is (ids, width).
  virtual absl::Status PullRows(PullMode mode, std::span<const TableKeys> tables,
                                std::span<const std::span<float>> weights) = 0;
  virtual void Prefetch(std::span<const TableKeys> tables) = 0;

  // Dense parameters, all in one vector, in the order of config. Empty off shard 0.
  virtual absl::Status PullDense(std::span<float> params) const = 0;
  virtual absl::Status SetDense(std::span<const float> params) = 0;

  // Applies the gradients of one batch, exactly once per name: a repeated name
  // changes nothing and is ok (*applied says which); a copy that comes while
  // the first is being applied waits for it. Dense parameters of kind
  // `statistic` take their entry as a plain addition; the others step their
  // optimiser. `dense_grads` may be empty. A table's error leaves the batch
  // applied in part and the name not recorded.
  virtual absl::Status Push(const BatchName& name, float lr_scale,
                            std::span<const TableKeys> tables,
                            std::span<const std::span<const float>> grads,
                            std::span<const float> dense_grads, bool* applied) = 0;

  // A cut's files: one row file a table (`table-<name>-<shard>-of-<shards>.rows`),
  // `dense.bin` on shard 0 (params, optimiser state, steps) and
  // `applied-<shard>-of-<shards>.bin`.

  // Reads the parts of a checkpoint written by any number of shards, keeping
  // what belongs to this one: a full cut, then those that are since the one
  // before each. Compares what it reads with the manifests; all shards together
  // read every byte. DataLoss, naming the file, if one is damaged or another;
  // FailedPrecondition, naming what differs, if it is
  // another model's, or if this store is not new. After an error discard it.
  virtual absl::Status Load(const std::vector<StoredCut>& chain) = 0;

  virtual EmbeddingTable& table(int t) = 0;
  virtual int tables() const = 0;
  virtual int64_t batches_applied() const = 0;
  virtual int64_t batches_repeated() const = 0;
};

}  // namespace starling
