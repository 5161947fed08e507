#include "embedding_store/table_core.h"

#include <algorithm>
#include <bit>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "embedding_store/admission.h"
#include "embedding_store/row_file.h"
#include "embedding_store/row_slab.h"

namespace starling {
namespace {

constexpr int64_t kStripesMax = 64;  // As many runs of buckets as a row file can be shared by.
static_assert(kStripesMax <= kBuckets >> kBucketRunShiftMin);
constexpr int64_t kStripeSkew = 4;            // The largest stripe by the average one, at most.
constexpr int64_t kShareMin = 16 << 10;       // Bytes of a stripe.
constexpr int64_t kShareWanted = 256 << 10;   // With less, fewer stripes are better.
constexpr int64_t kColdBytesMax = 256 << 20;  // RocksDB's part of the budget.
constexpr int64_t kAdmissionBytesMax = 64 << 20;
constexpr int64_t kAsideBytesMin = 1 << 20;
constexpr int64_t kAsideBytesMax = 1 << 30;

}  // namespace

absl::StatusOr<std::unique_ptr<TableCore>> MakeTableCore(const TableSpec& spec,
                                                         const TableEnv& env) {
  const TableOptions& options = spec.options();
  const std::string where = absl::StrCat("table ", options.name());
  auto core = std::make_unique<TableCore>();
  ASSIGN_OR_RETURN(core->layout, RowLayout::Create(spec));
  RETURN_IF_ERROR(Annotate(AdmissionFilter::Check(options.admit()), where));
  core->spec = spec;
  core->seed = TableSeed(spec);
  core->ttl = options.evict().ttl();
  core->rows_max = options.evict().rows();
  core->norm_min = options.evict().norm();
  core->dense = options.update() == TableOptions::DENSE;
  const bool tiered = options.tier() == TableOptions::ROCKSDB && !core->dense;
  if (tiered && env.scratch_dir.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": tier rocksdb needs a scratch directory"));
  }
  const int64_t cold_bytes =
      tiered ? std::clamp(options.memory() / 6, ColdTier::kMemoryMin, kColdBytesMax) : 0;
  // Rows on their way to a snapshot, and tombstones: three in 64 parts, which a
  // table of less than 64 MiB may exceed by some.
  const int64_t own_bytes = options.memory() - cold_bytes;
  core->aside_bytes = std::clamp(own_bytes / 32, kAsideBytesMin, kAsideBytesMax);
  core->budget = own_bytes - own_bytes / 32 - own_bytes / 64;
  const int64_t row_bytes = int64_t{sizeof(RowHeader)} + core->layout.body_bytes();
  const int64_t share_min = std::max(kShareMin, 8 * row_bytes);
  if (core->budget < share_min) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": memory is ", options.memory(),
                                                   " bytes; raise it to at least ",
                                                   share_min * 64 / 61 + 2 + cold_bytes));
  }
  const auto stripes = static_cast<int>(std::bit_floor<uint64_t>(
      std::clamp<int64_t>(core->budget / std::max(kShareWanted, 2 * share_min), 1, kStripesMax)));
  core->share = core->budget / stripes;
  core->aside_block_bytes =
      std::min<int64_t>(core->aside_bytes / (4 * stripes), RowBlock::kBytesMax);
  core->tombstones_max = std::clamp<int64_t>(own_bytes / 64 / 16, 1 << 16, 1 << 22) / stripes;
  core->stripe_bits = std::countr_zero(static_cast<unsigned>(stripes));
  // Address space costs nothing: enough for a stripe of several times its share.
  core->rows_reserve = std::min(core->budget, kStripeSkew * core->share);
  core->index_reserve = core->rows_reserve / 2;
  core->arena = std::make_unique<PageArena>(
      stripes * (PageArena::Rounded(core->rows_reserve) + PageArena::Rounded(core->index_reserve)));
  core->admission_bytes = std::clamp<int64_t>(core->share / 32, 64, kAdmissionBytesMax / stripes);
  if (tiered) {
    core->cold = std::make_unique<ColdTier>(
        ColdTier::Options{env.scratch_dir, core->layout.body_bytes(), cold_bytes});
  }
  return core;
}

}  // namespace starling
