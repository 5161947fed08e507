#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <utility>
#include <vector>

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
  explicit RowFileReaderImpl(const std::string& path) : path_(path) {}

  // Checks the two ends of the file: header and footer.
  absl::Status Open() {
    file_.open(path_, std::ios::binary | std::ios::ate);
    if (!file_) {
      return absl::NotFoundError(
          absl::StrCat(path_, ": cannot open this row file: ", std::strerror(errno)));
    }
    size_ = static_cast<uint64_t>(file_.tellg());
    RETURN_IF_ERROR(ReadHeader());
    return ReadFooter();
  }

  const RowFileHeader& header() const override { return header_; }
  int64_t rows() const override { return static_cast<int64_t>(rows_); }

  absl::Status ReadAll(const std::function<absl::Status(const RowRecord&)>& fn,
                       std::map<std::string, std::string>* extras) override {
    uint64_t rows = 0, blocks = 0, extra_count = 0;
    uint64_t at = body_begin_;
    have_last_ = false;
    while (at < body_end_) {
      uint32_t tag = 0;
      RETURN_IF_ERROR(ReadTag(at, &tag));
      if (tag == kBlockTag && extra_count == 0) {
        RETURN_IF_ERROR(ReadBlock(&at, fn, &rows));
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
    return absl::OkStatus();
  }

 private:
  absl::Status Corrupt(uint64_t offset, absl::string_view what) const {
    return absl::DataLossError(absl::StrCat(path_, ": offset ", offset, ": ", what,
                                            "; the row file is truncated or damaged"));
  }

  absl::Status ReadAt(uint64_t offset, uint64_t bytes, uint64_t limit, std::string* out) {
    if (offset > limit || bytes > limit - offset) return Corrupt(offset, "unexpected end");
    out->resize(bytes);
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset));
    if (!file_.read(out->data(), static_cast<std::streamsize>(bytes))) {
      return Corrupt(offset, "cannot read");
    }
    return absl::OkStatus();
  }

  absl::Status ReadHeader() {
    std::string bytes;
    RETURN_IF_ERROR(ReadAt(0, kHeaderPrefix, size_, &bytes));
    if (absl::string_view(bytes).substr(0, 8) != kMagic) return Corrupt(0, "not a row file");
    const uint32_t version = Get<uint32_t>(&bytes[8]), length = Get<uint32_t>(&bytes[12]);
    if (length > kHeaderBytesMax) return Corrupt(12, "impossible header length");
    RETURN_IF_ERROR(ReadAt(0, kHeaderPrefix + length + 4, size_, &bytes));
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
    floats_.resize(static_cast<size_t>(header_.width) + header_.state_size);
    body_begin_ = kHeaderPrefix + length + 4;
    return absl::OkStatus();
  }

  absl::Status ReadFooter() {
    if (size_ < body_begin_ + kFooterBytes) return Corrupt(size_, "no footer");
    body_end_ = size_ - kFooterBytes;
    std::string bytes;
    RETURN_IF_ERROR(ReadAt(body_end_, kFooterBytes, size_, &bytes));
    absl::string_view view = bytes;
    if (view.substr(28) != kEndMagic || Get<uint32_t>(&bytes[0]) != kFooterTag ||
        Get<uint32_t>(&bytes[24]) != Crc32c(view.substr(0, 24))) {
      return Corrupt(body_end_, "no valid footer");
    }
    rows_ = Get<uint64_t>(&bytes[4]);
    blocks_ = Get<uint64_t>(&bytes[12]);
    extras_ = Get<uint32_t>(&bytes[20]);
    return absl::OkStatus();
  }

  absl::Status ReadTag(uint64_t at, uint32_t* tag) {
    RETURN_IF_ERROR(ReadAt(at, 4, body_end_, &buffer_));
    *tag = Get<uint32_t>(buffer_.data());
    return absl::OkStatus();
  }

  absl::Status ReadBlock(uint64_t* at, const std::function<absl::Status(const RowRecord&)>& fn,
                         uint64_t* rows) {
    const uint64_t start = *at;
    RETURN_IF_ERROR(ReadAt(start, kBlockPrefix, body_end_, &buffer_));
    const uint32_t count = Get<uint32_t>(&buffer_[4]), bytes = Get<uint32_t>(&buffer_[8]);
    const uint32_t crc = Get<uint32_t>(&buffer_[12]);
    const uint32_t prefix_crc = Crc32c(absl::string_view(buffer_).substr(0, 12));
    if (bytes > kBlockBytesMax) return Corrupt(start, "impossible block length");
    RETURN_IF_ERROR(ReadAt(start + kBlockPrefix, bytes, body_end_, &buffer_));
    if (Crc32c(buffer_, prefix_crc) != crc) return Corrupt(start, "block checksum differs");
    *at = start + kBlockPrefix + bytes;
    *rows += count;
    return EmitRows(start, count, fn);
  }

  absl::Status EmitRows(uint64_t start, uint32_t count,
                        const std::function<absl::Status(const RowRecord&)>& fn) {
    size_t pos = 0;
    for (uint32_t r = 0; r < count; ++r) {
      if (buffer_.size() - pos < kRowPrefix) return Corrupt(start, "a row ends too early");
      const char* p = buffer_.data() + pos;
      RowRecord row;
      row.id = Get<uint64_t>(p);
      row.meta = {Get<int64_t>(p + 8), Get<uint32_t>(p + 16), Get<uint32_t>(p + 20)};
      row.tombstone = (Get<uint32_t>(p + 24) & kTombstone) != 0;
      pos += kRowPrefix;
      if (!row.tombstone) {
        const size_t bytes = floats_.size() * sizeof(float);
        if (buffer_.size() - pos < bytes) return Corrupt(start, "a row ends too early");
        if (bytes > 0) std::memcpy(floats_.data(), buffer_.data() + pos, bytes);
        row.floats = floats_;
        pos += bytes;
      }
      if (header_.sorted && have_last_ && !IdBefore(last_id_, row.id))
        return Corrupt(start, "ids out of order");
      have_last_ = true;
      last_id_ = row.id;
      RETURN_IF_ERROR(fn(row));
    }
    return pos == buffer_.size() ? absl::OkStatus() : Corrupt(start, "bytes after the last row");
  }

  absl::Status ReadExtra(uint64_t* at, std::map<std::string, std::string>* extras) {
    const uint64_t start = *at;
    RETURN_IF_ERROR(ReadAt(start, kExtraPrefix, body_end_, &buffer_));
    const uint32_t name_length = Get<uint32_t>(&buffer_[4]);
    const uint64_t bytes = Get<uint64_t>(&buffer_[8]);
    const uint32_t crc = Get<uint32_t>(&buffer_[16]);
    const uint32_t prefix_crc = Crc32c(absl::string_view(buffer_).substr(0, 16));
    if (bytes > std::numeric_limits<uint64_t>::max() - name_length) {
      return Corrupt(start, "impossible extra length");
    }
    RETURN_IF_ERROR(ReadAt(start + kExtraPrefix, name_length + bytes, body_end_, &buffer_));
    if (Crc32c(buffer_, prefix_crc) != crc) return Corrupt(start, "extra checksum differs");
    if (extras != nullptr) {
      (*extras)[buffer_.substr(0, name_length)] = buffer_.substr(name_length);
    }
    *at = start + kExtraPrefix + name_length + bytes;
    return absl::OkStatus();
  }

  const std::string path_;
  std::ifstream file_;
  uint64_t size_ = 0, body_begin_ = 0, body_end_ = 0;
  RowFileHeader header_;
  uint64_t rows_ = 0, blocks_ = 0;  // By the footer, as extras_.
  uint32_t extras_ = 0;
  std::string buffer_;         // One block or extra.
  std::vector<float> floats_;  // One row.
  bool have_last_ = false;
  uint64_t last_id_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RowFileReader>> RowFileReader::Open(const std::string& path) {
  auto reader = std::make_unique<RowFileReaderImpl>(path);
  RETURN_IF_ERROR(reader->Open());
  return reader;
}

}  // namespace starling
