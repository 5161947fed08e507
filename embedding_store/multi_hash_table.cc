#include "embedding_store/multi_hash_table.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "embedding_store/multi_hash.h"

namespace starling {
namespace {

// An id has two rows, which the next call searches for again: places are left alone.
class MultiHashTable : public EmbeddingTable {
 public:
  explicit MultiHashTable(std::unique_ptr<EmbeddingTable> rows)
      : rows_(std::move(rows)), options_(rows_->spec().options().multi_hash()) {}

  const TableSpec& spec() const override { return rows_->spec(); }
  const RowLayout& layout() const override { return rows_->layout(); }
  int width() const override { return rows_->width(); }

  absl::Status Lookup(std::span<const uint64_t> ids, std::span<float> weights) const override {
    return MultiHashLookup(options_, *rows_, ids, weights);
  }

  absl::Status LookupOrCreate(std::span<const uint64_t> ids, std::span<const uint32_t> counts,
                              std::span<const int64_t> event_times, std::span<float> weights,
                              std::span<uint32_t> places) override {
    RETURN_IF_ERROR(CheckSizes(ids.size(), weights.size()));
    RETURN_IF_ERROR(CheckLengths(ids.size(), {counts.size(), event_times.size(), places.size()}));
    const MultiHashParts parts = SplitIds(options_, ids);
    std::vector<uint32_t> part_counts(parts.ids.size());
    std::vector<int64_t> part_times(event_times.empty() ? 0 : parts.ids.size(),
                                    std::numeric_limits<int64_t>::min());
    for (size_t i = 0; i < ids.size(); ++i) {
      for (uint32_t p : {parts.first[i], parts.second[i]}) {
        const uint64_t sum = uint64_t{part_counts[p]} + (counts.empty() ? 1 : counts[i]);
        part_counts[p] =
            static_cast<uint32_t>(std::min<uint64_t>(sum, std::numeric_limits<uint32_t>::max()));
        if (!event_times.empty()) part_times[p] = std::max(part_times[p], event_times[i]);
      }
    }
    std::vector<float> part_weights(parts.ids.size() * width());
    RETURN_IF_ERROR(rows_->LookupOrCreate(parts.ids, part_counts, part_times, part_weights));
    CombineParts(options_, parts, width(), part_weights, weights);
    return absl::OkStatus();
  }

  absl::Status ApplyGradients(std::span<const uint64_t> ids, std::span<const float> grads,
                              float lr_scale, std::span<const uint32_t> places) override {
    RETURN_IF_ERROR(CheckSizes(ids.size(), grads.size()));
    RETURN_IF_ERROR(CheckLengths(ids.size(), {places.size()}));
    const MultiHashParts parts = SplitIds(options_, ids);
    std::vector<float> part_weights;
    if (options_.combine() == MultiHashOptions::MULTIPLY) {
      part_weights.resize(parts.ids.size() * width());
      RETURN_IF_ERROR(rows_->Lookup(parts.ids, part_weights));
    }
    return rows_->ApplyGradients(
        parts.ids, PartGradients(options_, parts, width(), part_weights, grads), lr_scale);
  }

  absl::Status ApplyDeltas(std::span<const uint64_t>, std::span<const float>) override {
    return absl::FailedPreconditionError(absl::StrCat(
        "table ", spec().options().name(), ": rows that ids share (multi_hash) take no deltas"));
  }
  void Prefetch(std::span<const uint64_t> ids) override {
    rows_->Prefetch(SplitIds(options_, ids).ids);
  }
  absl::Status Erase(std::span<const uint64_t>) override { return absl::OkStatus(); }

  absl::StatusOr<std::unique_ptr<TableSnapshot>> StartSnapshot(
      const std::string& path, const SnapshotOptions& options) override {
    return rows_->StartSnapshot(path, options);
  }
  void DropTombstones(uint32_t epoch) override { rows_->DropTombstones(epoch); }
  absl::Status Restore(const std::string& path, const std::function<bool(uint64_t)>& keep,
                       Take take, std::optional<uint32_t> crc32c) override {
    return rows_->Restore(path, keep, take, crc32c);
  }
  absl::Status ForEach(const std::function<void(uint64_t, const RowMeta&, std::span<const float>)>&
                           fn) const override {
    return rows_->ForEach(fn);
  }
  int64_t rows() const override { return rows_->rows(); }
  TableStats stats() const override { return rows_->stats(); }

 private:
  const std::unique_ptr<EmbeddingTable> rows_;
  const MultiHashOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<EmbeddingTable>> WrapMultiHash(
    std::unique_ptr<EmbeddingTable> rows) {
  RETURN_IF_ERROR(Annotate(CheckMultiHash(rows->spec().options().multi_hash()),
                           absl::StrCat("table ", rows->spec().options().name())));
  return std::make_unique<MultiHashTable>(std::move(rows));
}

}  // namespace starling
