#include "embedding_store/multi_hash.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status.h"

namespace starling {
namespace {

constexpr int64_t kRowsMax = int64_t{1} << 28;
// Keys of their own, so that pairs and part ids have nothing to do with row
// inits, buckets or stripes. Frozen.
constexpr uint64_t kPairKey = 0x6D68207061697273ull;
constexpr uint64_t kPartKey = 0x6D68207061727473ull;

uint64_t PartId(int part, uint64_t number) { return Mix64((number << 1 | part) ^ kPartKey); }

std::string Describe(const TableOptions& options) {
  if (!options.has_multi_hash()) return "no multi_hash";
  const MultiHashOptions& m = options.multi_hash();
  return absl::StrCat("multi_hash {rows: ", m.rows(),
                      ", combine: ", m.combine() == MultiHashOptions::ADD ? "add" : "multiply",
                      "}");
}

}  // namespace

absl::Status CheckMultiHash(const MultiHashOptions& options) {
  if (options.rows() >= 2 && options.rows() <= kRowsMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("multi_hash.rows is ", options.rows(), "; it must be within 2..", kRowsMax));
}

absl::Status SameMultiHash(const std::string& where, const TableOptions& file,
                           const TableOptions& mine) {
  const std::string theirs = Describe(file), ours = Describe(mine);
  if (theirs == ours) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(where, ": the file's rows have ", theirs, ", the table's ", ours));
}

MultiHashParts SplitIds(const MultiHashOptions& options, std::span<const uint64_t> ids) {
  const auto n = static_cast<uint64_t>(options.rows());
  MultiHashParts parts;
  parts.first.reserve(ids.size());
  parts.second.reserve(ids.size());
  absl::flat_hash_map<uint64_t, uint32_t> places;
  places.reserve(2 * ids.size());
  auto place = [&](uint64_t id) {
    auto [it, fresh] = places.try_emplace(id, static_cast<uint32_t>(parts.ids.size()));
    if (fresh) parts.ids.push_back(id);
    return it->second;
  };
  for (uint64_t id : ids) {
    const uint64_t v = RandomBelow(kPairKey, id, n * n);
    parts.first.push_back(place(PartId(0, v / n)));
    parts.second.push_back(place(PartId(1, v % n)));
  }
  return parts;
}

void CombineParts(const MultiHashOptions& options, const MultiHashParts& parts, int width,
                  std::span<const float> part_weights, std::span<float> weights) {
  const bool add = options.combine() == MultiHashOptions::ADD;
  for (size_t i = 0; i < parts.first.size(); ++i) {
    const float* a = part_weights.data() + size_t{parts.first[i]} * width;
    const float* b = part_weights.data() + size_t{parts.second[i]} * width;
    float* out = weights.data() + i * width;
    for (int j = 0; j < width; ++j) out[j] = add ? a[j] + b[j] : a[j] * (1.0f + b[j]);
  }
}

std::vector<float> PartGradients(const MultiHashOptions& options, const MultiHashParts& parts,
                                 int width, std::span<const float> part_weights,
                                 std::span<const float> grads) {
  const bool add = options.combine() == MultiHashOptions::ADD;
  std::vector<float> sums(parts.ids.size() * width);
  for (size_t i = 0; i < parts.first.size(); ++i) {
    const size_t first = size_t{parts.first[i]} * width, second = size_t{parts.second[i]} * width;
    const float* grad = grads.data() + i * width;
    for (int j = 0; j < width; ++j) {
      sums[first + j] += add ? grad[j] : grad[j] * (1.0f + part_weights[second + j]);
      sums[second + j] += add ? grad[j] : grad[j] * part_weights[first + j];
    }
  }
  return sums;
}

absl::Status MultiHashLookup(const MultiHashOptions& options, const RowSource& rows,
                             std::span<const uint64_t> ids, std::span<float> weights) {
  const int width = rows.width();
  if (weights.size() != ids.size() * width) {
    return absl::InvalidArgumentError(
        absl::StrCat(weights.size(), " floats for ", ids.size(), " ids of width ", width));
  }
  const MultiHashParts parts = SplitIds(options, ids);
  std::vector<float> part_weights(parts.ids.size() * width);
  RETURN_IF_ERROR(rows.Lookup(parts.ids, part_weights));
  CombineParts(options, parts, width, part_weights, weights);
  return absl::OkStatus();
}

}  // namespace starling
