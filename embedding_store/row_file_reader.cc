#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "embedding_store/row_file.h"
#include "embedding_store/row_file_format.h"

namespace starling {
namespace {

using namespace row_file;

class RowFileReaderImpl : public RowFileReader {
 public:
  RowFileReaderImpl(const std::string& path, std::optional<uint32_t> crc32c)
      : path_(path), expected_crc_(crc32c) {}

  // Checks the two ends of the file: header and footer.
  absl::Status Open() {
    ASSIGN_OR_RETURN(file_, ReadableFile::Open(path_));
    size_ = static_cast<uint64_t>(file_->size());
    RETURN_IF_ERROR(ReadHeader());
    return ReadFooter();
  }

  const RowFileHeader& header() const override { return header_; }
  int64_t rows() const override { return static_cast<int64_t>(rows_); }

  absl::Status ReadAll(const std::function<absl::Status(const RowRecord&)>& fn,
                       std::map<std::string, std::string>* extras) override {
    std::map<std::string, std::string> unwanted;
    return ReadShare(
        BucketRuns(),
        [&fn](std::span<RowRecord> rows) -> absl::Status {
          for (const RowRecord& row : rows) RETURN_IF_ERROR(fn(row));
          return absl::OkStatus();
        },
        extras != nullptr ? extras : &unwanted);
  }

  absl::Status ReadShare(const BucketRuns& share,
                         const std::function<absl::Status(std::span<RowRecord>)>& fn,
                         std::map<std::string, std::string>* extras) override {
    uint64_t rows = 0, blocks = 0, extra_count = 0;
    uint64_t at = body_begin_;
    have_last_ = false;
    file_crc_ = header_crc_;
    RETURN_IF_ERROR(ReadPart(at, 0));
    while (at < body_end_) {
      if (next_.size() < 4) return Corrupt(at, "unexpected end");
      const uint32_t tag = Get<uint32_t>(next_.data());
      if (tag == kBlockTag && extra_count == 0) {
        RETURN_IF_ERROR(ReadBlock(&at, share, fn, &rows));
        ++blocks;
      } else if (tag == kExtraTag) {
        RETURN_IF_ERROR(ReadExtra(&at, extras));
        ++extra_count;
      } else {
        return Corrupt(at, "neither a block nor an extra starts here");
      }
    }
    if (rows != rows_ || blocks != blocks_ || extra_count != extras_) {
      return Corrupt(body_end_, "the footer counts other rows, blocks or extras than there are");
    }
    return CheckFileCrc();
  }

 private:
  absl::Status Corrupt(uint64_t offset, absl::string_view what) const {
    return absl::DataLossError(absl::StrCat(path_, ": offset ", offset, ": ", what,
                                            "; the row file is truncated or damaged"));
  }

  absl::Status ReadAt(uint64_t offset, uint64_t bytes, std::string* out) {
    if (offset > size_ || bytes > size_ - offset) return Corrupt(offset, "unexpected end");
    out->resize(bytes);
    return ReadAt(offset, {out->data(), bytes});
  }
  absl::Status ReadAt(uint64_t offset, std::span<char> out) const {
    absl::Status status = file_->ReadAt(static_cast<int64_t>(offset), out);
    return status.ok() ? status : Corrupt(offset, status.message());
  }

  // Reads part_, and in the same turn next_: the prefix of what comes behind it.
  absl::Status ReadPart(uint64_t offset, uint64_t bytes) {
    if (offset > body_end_ || bytes > body_end_ - offset) return Corrupt(offset, "unexpected end");
    const uint64_t next = std::min<uint64_t>(kExtraPrefix, body_end_ - offset - bytes);
    if (bytes + next > capacity_) {
      capacity_ = bytes + next;
      buffer_ = std::make_unique_for_overwrite<char[]>(capacity_);
    }
    RETURN_IF_ERROR(ReadAt(offset, {buffer_.get(), bytes + next}));
    part_ = {buffer_.get(), bytes};
    next_.assign(buffer_.get() + bytes, next);
    return absl::OkStatus();
  }

  // Takes the part whose prefix next_ is into the file's checksum. The prefix ends with `crc`, that
  // of what stands before it, which alone is `prefix_crc`, and of the body: so the body's own
  // follows, and who has no rows in it need not compute it.
  void JoinPart(size_t prefix, uint32_t prefix_crc, uint32_t crc, uint64_t body_bytes) {
    const uint32_t before = Crc32c(absl::string_view(next_).substr(0, prefix), file_crc_);
    file_crc_ = JoinCrc32c(before ^ prefix_crc, crc, body_bytes);
  }

  absl::Status CheckFileCrc() const {
    const uint32_t crc = Crc32c(footer_, file_crc_);
    if (!expected_crc_.has_value() || crc == *expected_crc_) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrFormat("%s: checksum %08x, the manifest says %08x", path_, crc, *expected_crc_));
  }

  absl::Status ReadHeader() {
    std::string bytes;
    RETURN_IF_ERROR(ReadAt(0, kHeaderPrefix, &bytes));
    if (absl::string_view(bytes).substr(0, 8) != kMagic) return Corrupt(0, "not a row file");
    const uint32_t version = Get<uint32_t>(&bytes[8]), length = Get<uint32_t>(&bytes[12]);
    if (length > kHeaderBytesMax) return Corrupt(12, "impossible header length");
    RETURN_IF_ERROR(ReadAt(0, kHeaderPrefix + length + 4, &bytes));
    absl::string_view covered = absl::string_view(bytes).substr(0, kHeaderPrefix + length);
    if (Crc32c(covered) != Get<uint32_t>(&bytes[kHeaderPrefix + length])) {
      return Corrupt(0, "header checksum differs");
    }
    if (version != kVersion) {
      return absl::FailedPreconditionError(absl::StrCat(path_, ": row file version ", version,
                                                        "; this program reads version ", kVersion));
    }
    RowFileHeaderProto proto;
    if (!proto.ParseFromArray(&bytes[kHeaderPrefix], static_cast<int>(length)) ||
        proto.width() < 0 || proto.state_size() < 0) {
      return Corrupt(kHeaderPrefix, "unreadable header");
    }
    header_ = {proto.spec(), proto.width(), proto.state_size(), proto.sorted()};
    body_begin_ = kHeaderPrefix + length + 4;
    header_crc_ = Crc32c(bytes);
    return absl::OkStatus();
  }

  absl::Status ReadFooter() {
    if (size_ < body_begin_ + kFooterBytes) return Corrupt(size_, "no footer");
    body_end_ = size_ - kFooterBytes;
    RETURN_IF_ERROR(ReadAt(body_end_, kFooterBytes, &footer_));
    absl::string_view view = footer_;
    if (view.substr(28) != kEndMagic || Get<uint32_t>(&footer_[0]) != kFooterTag ||
        Get<uint32_t>(&footer_[24]) != Crc32c(view.substr(0, 24))) {
      return Corrupt(body_end_, "no valid footer");
    }
    rows_ = Get<uint64_t>(&footer_[4]);
    blocks_ = Get<uint64_t>(&footer_[12]);
    extras_ = Get<uint32_t>(&footer_[20]);
    return absl::OkStatus();
  }

  absl::Status ReadBlock(uint64_t* at, const BucketRuns& share,
                         const std::function<absl::Status(std::span<RowRecord>)>& fn,
                         uint64_t* rows) {
    const uint64_t start = *at;
    if (next_.size() < kBlockPrefix) return Corrupt(start, "unexpected end");
    const uint32_t count = Get<uint32_t>(&next_[4]), bytes = Get<uint32_t>(&next_[8]);
    const uint32_t crc = Get<uint32_t>(&next_[12]);
    const uint32_t prefix_crc = Crc32c(absl::string_view(next_).substr(0, 12));
    if (bytes > kBlockBytesMax) return Corrupt(start, "impossible block length");
    JoinPart(kBlockPrefix, prefix_crc, crc, bytes);
    RETURN_IF_ERROR(ReadPart(start + kBlockPrefix, bytes));
    *at = start + kBlockPrefix + bytes;
    *rows += count;
    // What is looked at before it is checked comes to nothing if the checksum differs.
    const absl::Status status = FindRows(start, count, share);
    // Without rows it is nobody's: all check it.
    if (status.ok() && records_.empty() && count > 0) return status;
    if (Crc32c(part_, prefix_crc) != crc) return Corrupt(start, "block checksum differs");
    RETURN_IF_ERROR(status);
    return fn(std::span(records_));
  }

  // Puts the block's rows that are of the share into records_.
  absl::Status FindRows(uint64_t start, uint32_t count, const BucketRuns& share) {
    const size_t float_count = static_cast<size_t>(header_.width) + header_.state_size;
    const char* p = part_.data();
    const char* const end = p + part_.size();
    records_.clear();
    for (uint32_t r = 0; r < count; ++r) {
      if (static_cast<size_t>(end - p) < kRowPrefix) return Corrupt(start, "a row ends too early");
      const auto id = Get<uint64_t>(p);
      const bool tombstone = (Get<uint32_t>(p + 24) & kTombstone) != 0;
      const size_t floats = tombstone ? 0 : float_count;
      if (static_cast<size_t>(end - p) - kRowPrefix < floats * sizeof(float)) {
        return Corrupt(start, "a row ends too early");
      }
      if (header_.sorted && have_last_ && !IdBefore(last_id_, id)) {
        return Corrupt(start, "ids out of order");
      }
      have_last_ = true;
      last_id_ = id;
      if (share.Has(id)) {
        // A buffer is aligned, and all that stands in a block is a multiple of four bytes.
        records_.push_back(
            {.id = id,
             .meta = {Get<int64_t>(p + 8), Get<uint32_t>(p + 16), Get<uint32_t>(p + 20)},
             .tombstone = tombstone,
             .floats = {reinterpret_cast<const float*>(p + kRowPrefix), floats}});
      }
      p += kRowPrefix + floats * sizeof(float);
    }
    return p == end ? absl::OkStatus() : Corrupt(start, "bytes after the last row");
  }

  absl::Status ReadExtra(uint64_t* at, std::map<std::string, std::string>* extras) {
    const uint64_t start = *at;
    if (next_.size() < kExtraPrefix) return Corrupt(start, "unexpected end");
    const uint32_t name_length = Get<uint32_t>(&next_[4]);
    const uint64_t bytes = Get<uint64_t>(&next_[8]);
    const uint32_t crc = Get<uint32_t>(&next_[16]);
    const uint32_t prefix_crc = Crc32c(absl::string_view(next_).substr(0, 16));
    if (bytes > std::numeric_limits<uint64_t>::max() - name_length) {
      return Corrupt(start, "impossible extra length");
    }
    const uint64_t begin = start + kExtraPrefix, length = name_length + bytes;
    JoinPart(kExtraPrefix, prefix_crc, crc, length);
    if (extras == nullptr) {
      if (length > body_end_ - begin) return Corrupt(start, "unexpected end");
      *at = begin + length;
      return ReadPart(*at, 0);
    }
    RETURN_IF_ERROR(ReadPart(begin, length));
    if (Crc32c(part_, prefix_crc) != crc) return Corrupt(start, "extra checksum differs");
    (*extras)[std::string(part_.substr(0, name_length))] = std::string(part_.substr(name_length));
    *at = begin + length;
    return absl::OkStatus();
  }

  const std::string path_;
  const std::optional<uint32_t> expected_crc_;  // Of the whole file.
  std::unique_ptr<ReadableFile> file_;
  uint64_t size_ = 0, body_begin_ = 0, body_end_ = 0;
  RowFileHeader header_;
  uint64_t rows_ = 0, blocks_ = 0;  // By the footer, as extras_.
  uint32_t extras_ = 0;
  uint32_t header_crc_ = 0, file_crc_ = 0;  // Of the header; of all that was read so far.
  std::string footer_;
  std::unique_ptr<char[]> buffer_;
  size_t capacity_ = 0;             // Of the buffer.
  absl::string_view part_;          // In it: the body of one block or extra.
  std::string next_;                // What follows it, as much as a prefix may be.
  std::vector<RowRecord> records_;  // Rows of one block.
  bool have_last_ = false;
  uint64_t last_id_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RowFileReader>> RowFileReader::Open(const std::string& path,
                                                                   std::optional<uint32_t> crc32c) {
  auto reader = std::make_unique<RowFileReaderImpl>(path, crc32c);
  RETURN_IF_ERROR(reader->Open());
  return reader;
}

}  // namespace starling
