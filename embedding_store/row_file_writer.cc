#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/sync_point.h"
#include "embedding_store/row_block.h"
#include "embedding_store/row_file.h"
#include "embedding_store/row_file_format.h"

namespace starling {
namespace {

using namespace row_file;

class RowFileWriterImpl : public RowFileWriter {
 public:
  RowFileWriterImpl(std::unique_ptr<WritableFile> file, const RowFileHeader& header)
      : file_(std::move(file)),
        entry_{std::filesystem::path(file_->path()).filename().string(), 0, 0},
        floats_(header.width + header.state_size),
        sorted_(header.sorted) {}

  absl::Status WriteHeader(const RowFileHeader& header) {
    RowFileHeaderProto proto;
    *proto.mutable_spec() = header.spec;
    proto.set_width(header.width);
    proto.set_state_size(header.state_size);
    if (!header.sorted) proto.set_sorted(false);
    std::string bytes(kMagic);
    std::string body = proto.SerializeAsString();
    Put<uint32_t>(&bytes, kVersion);
    Put<uint32_t>(&bytes, body.size());
    bytes += body;
    Put<uint32_t>(&bytes, Crc32c(bytes));
    return Write(bytes);
  }

  absl::Status Append(const RowRecord& row) override {
    RETURN_IF_ERROR(CheckRow(row));
    char prefix[kRowPrefix];
    PutRowPrefix(row.id, row.meta.event_time, row.meta.frequency, row.meta.epoch,
                 row.tombstone ? kTombstone : 0, prefix);
    block_.append(prefix, sizeof(prefix));
    if (!row.tombstone) {
      block_.append(reinterpret_cast<const char*>(row.floats.data()), floats_ * sizeof(float));
    }
    last_id_ = row.id;
    ++rows_;
    ++block_rows_;
    return block_.size() < kBlockBytes ? absl::OkStatus() : FlushBlock();
  }

  absl::Status AppendBlock(const RowBlock& rows) override {
    if (rows.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(CheckBlock(rows));
    RETURN_IF_ERROR(FlushBlock());
    rows_ += rows.rows();
    return WriteBlock(rows.bytes(), static_cast<uint32_t>(rows.rows()));
  }

  absl::Status AddExtra(const std::string& name, absl::string_view bytes) override {
    RETURN_IF_ERROR(FlushBlock());
    std::string prefix;
    Put<uint32_t>(&prefix, kExtraTag);
    Put<uint32_t>(&prefix, name.size());
    Put<uint64_t>(&prefix, bytes.size());
    Put<uint32_t>(&prefix, Crc32c(bytes, Crc32c(name, Crc32c(prefix))));
    ++extras_;
    RETURN_IF_ERROR(Write(prefix));
    RETURN_IF_ERROR(Write(name));
    return Write(bytes);
  }

  absl::StatusOr<FileSetEntry> Finish() override {
    if (absl::Status status = WriteFooter(); !status.ok()) {
      // A file that may not be durable must not be taken for one that is.
      RemoveAll(file_->path()).IgnoreError();
      return status;
    }
    return entry_;
  }

 private:
  // The checksum of the whole file is taken here, so that nobody has to read it again.
  absl::Status Write(absl::string_view bytes) {
    entry_.bytes += static_cast<int64_t>(bytes.size());
    entry_.crc32c = Crc32c(bytes, entry_.crc32c);
    return file_->Append(bytes);
  }

  absl::Status CheckNoExtra() const {
    if (extras_ == 0) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(file_->path(), ": row added after an extra"));
  }
  absl::Status CheckBlock(const RowBlock& rows) const {
    RETURN_IF_ERROR(CheckNoExtra());
    if (!sorted_ && rows.bytes().size() == rows.rows() * (kRowPrefix + floats_ * sizeof(float))) {
      return absl::OkStatus();
    }
    return absl::InternalError(
        absl::StrCat(file_->path(), ": a block of rows in no order, or of another size"));
  }
  // A file that breaks these would be refused by the reader, when it is too late.
  absl::Status CheckRow(const RowRecord& row) const {
    RETURN_IF_ERROR(CheckNoExtra());
    if (sorted_ && rows_ > 0 && !IdBefore(last_id_, row.id)) {
      return absl::InternalError(
          absl::StrCat(file_->path(), ": id ", row.id, " after ", last_id_, " is out of order"));
    }
    if (!row.tombstone && row.floats.size() < floats_) {
      return absl::InternalError(absl::StrCat(file_->path(), ": row ", row.id, " has ",
                                              row.floats.size(), " floats, not ", floats_));
    }
    return absl::OkStatus();
  }

  absl::Status WriteFooter() {
    RETURN_IF_ERROR(FlushBlock());
    std::string footer;
    Put<uint32_t>(&footer, kFooterTag);
    Put<uint64_t>(&footer, rows_);
    Put<uint64_t>(&footer, blocks_);
    Put<uint32_t>(&footer, extras_);
    Put<uint32_t>(&footer, Crc32c(footer));
    footer.append(kEndMagic.data(), kEndMagic.size());
    RETURN_IF_ERROR(Write(footer));
    STARLING_SYNC_POINT("row_file.footer");
    return file_->Close();
  }

  absl::Status FlushBlock() {
    if (block_rows_ == 0) return absl::OkStatus();
    RETURN_IF_ERROR(WriteBlock(block_, block_rows_));
    block_rows_ = 0;
    block_.clear();
    return absl::OkStatus();
  }

  absl::Status WriteBlock(absl::string_view block, uint32_t rows) {
    STARLING_SYNC_POINT("row_file.block");
    std::string prefix;
    Put<uint32_t>(&prefix, kBlockTag);
    Put<uint32_t>(&prefix, rows);
    Put<uint32_t>(&prefix, block.size());
    Put<uint32_t>(&prefix, Crc32c(block, Crc32c(prefix)));
    RETURN_IF_ERROR(Write(prefix));
    ++blocks_;
    return Write(block);
  }

  std::unique_ptr<WritableFile> file_;
  FileSetEntry entry_;   // Of what was written so far.
  const size_t floats_;  // Per row.
  const bool sorted_;
  std::string block_;  // Rows of the block being filled.
  uint32_t block_rows_ = 0;
  uint64_t rows_ = 0, blocks_ = 0;
  uint32_t extras_ = 0;
  uint64_t last_id_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RowFileWriter>> RowFileWriter::Create(const std::string& path,
                                                                     const RowFileHeader& header) {
  ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, CreateLargeFile(path));
  auto writer = std::make_unique<RowFileWriterImpl>(std::move(file), header);
  RETURN_IF_ERROR(writer->WriteHeader(header));
  return writer;
}

}  // namespace starling
