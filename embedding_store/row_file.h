// RowFile: the one checksummed file format for rows, used by checkpoint,
// bundle, delta and bucket move. docs/formats.md describes it byte by byte.
//
//   header   magic, version, RowFileHeader proto, CRC32C
//   blocks   up to 1 MiB of rows each, by (bucket, id) if the header says so: size, rows, CRC32C
//   extra    named blobs (admission state), CRC32C each
//   footer   rows, blocks, CRC32C, magic
//
// A reader checks every checksum it passes, and that the file ends with its
// footer: a truncated or altered file is DataLoss naming path and offset.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_set.h"
#include "base/hash.h"
#include "embedding_store/row_layout.h"

namespace starling {

class RowBlock;

inline constexpr int kBucketRunShiftMin = 6;
static_assert(kBuckets >> kBucketRunShiftMin == 64);

struct RowRecord {
  uint64_t id = 0;
  RowMeta meta;
  bool tombstone = false;         // Deltas: the id is gone. No floats follow.
  std::span<const float> floats;  // header.width weights, then header.state_size of state.
};

struct RowFileHeader {
  TableSpec spec;  // What the rows belong to.
  int width = 0;
  int state_size = 0;  // 0 in bundles: weights only.
  bool sorted = true;  // Ids ascend by (bucket, id); else they come in any order.
};

class RowFileWriter {
 public:
  static absl::StatusOr<std::unique_ptr<RowFileWriter>> Create(const std::string& path,
                                                               const RowFileHeader& header);
  virtual ~RowFileWriter() = default;
  // REQUIRES: ids ascend by (bucket, id), unless the header says otherwise.
  virtual absl::Status Append(const RowRecord& row) = 0;
  // Rows that have the file's form already. REQUIRES: the header says that they
  // come in any order.
  virtual absl::Status AppendBlock(const RowBlock& rows) = 0;
  virtual absl::Status AddExtra(const std::string& name, absl::string_view bytes) = 0;
  // The file is durable if ok, and removed if not. Returns its entry for a manifest.
  virtual absl::StatusOr<FileSetEntry> Finish() = 0;
};

// Some of the buckets, which are cut into at most 64 runs of 2^shift: a bit for each.
struct BucketRuns {
  uint64_t runs = ~uint64_t{0};
  int shift = kBucketRunShiftMin;
  bool Has(uint64_t id) const { return (runs >> (BucketOf(id) >> shift) & 1) != 0; }
};

class RowFileReader {
 public:
  // With `crc32c`, a manifest's, a read of another file than that ends with DataLoss, though
  // its own checksums be right. It costs nothing: the whole file's is joined from those of its
  // parts.
  static absl::StatusOr<std::unique_ptr<RowFileReader>> Open(
      const std::string& path, std::optional<uint32_t> crc32c = std::nullopt);
  virtual ~RowFileReader() = default;
  virtual const RowFileHeader& header() const = 0;
  virtual int64_t rows() const = 0;  // By the footer.
  // Every row in order, then the extras into `extras` (may be null). The
  // floats given to `fn` are valid during the call only.
  virtual absl::Status ReadAll(const std::function<absl::Status(const RowRecord&)>& fn,
                               std::map<std::string, std::string>* extras) = 0;
  // For several readers that share a file's rows: those of `share`, in order, a block's at
  // once; fn may change the records. A block's checksum is checked before fn sees rows of it, and
  // not at all if none are of the share; extras likewise, if `extras` is null. So readers
  // whose shares are all buckets, one of them with extras, have checked every byte.
  virtual absl::Status ReadShare(const BucketRuns& share,
                                 const std::function<absl::Status(std::span<RowRecord>)>& fn,
                                 std::map<std::string, std::string>* extras) = 0;
};

}  // namespace starling
