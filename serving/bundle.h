// A bundle is an exported model: features, tables and graph, weights without
// optimiser state. A file set (base/file_set.h) of
//   features.json tables.json graph.json   the three specs, as JSON
//   dense.bin                              dense parameters, raw little-endian floats
//   table-<name>.rows                      rows of each table (embedding_store/row_file.h)
// A publication root holds one directory a version, `v%012d`; the greatest
// that has a manifest is current.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dense_net/model.pb.h"
#include "embedding_store/row_file.h"
#include "embedding_store/row_source.h"
#include "sample_io/data.pb.h"
#include "serving/bundle.pb.h"

namespace starling {

struct BundleSpec {
  BundleInfo info;
  FeatureSet features;
  TableSet tables;
  GraphSpec graph;
};

// Calls its argument for every row of table t, by (bucket, id). Rows may carry
// optimiser state behind the weights; it is cut off.
using RowEmitter = std::function<absl::Status(
    int table, const std::function<absl::Status(const RowRecord&)>& emit)>;

// Writes a bundle to `dir`, which must not hold one yet. On failure nothing
// that could be taken for a bundle is left.
absl::Status WriteBundle(const std::string& dir, const BundleSpec& spec,
                         std::span<const float> dense, const RowEmitter& rows);

std::string BundleVersionDir(const std::string& root, uint64_t version);
// The versions in a publication root that have a manifest, ascending.
absl::StatusOr<std::vector<uint64_t>> ListBundleVersions(const std::string& root);
// The directory of the current version in `root`; or `root` itself if it is a
// bundle. NotFound if there is neither.
absl::StatusOr<std::string> FindBundle(const std::string& root);

// A bundle in memory, read-only. Thread-safe.
class Bundle {
 public:
  // DataLoss, naming the file, if any checksum fails.
  static absl::StatusOr<std::unique_ptr<Bundle>> Load(const std::string& dir);
  virtual ~Bundle() = default;
  virtual const BundleSpec& spec() const = 0;
  virtual std::span<const float> dense() const = 0;
  virtual const RowSource& table(int t) const = 0;
  virtual int64_t rows(int t) const = 0;
};

}  // namespace starling
