#include "sample_io/ipc_batches.h"

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/ipc/message.h>
#include <arrow/result.h>

#include <utility>

namespace starling {
namespace {

// Keeps the message whose header was read last.
class LastMessage : public arrow::ipc::MessageDecoderListener {
 public:
  arrow::Status OnMessageDecoded(std::unique_ptr<arrow::ipc::Message> message) override {
    message_ = std::move(message);
    return arrow::Status::OK();
  }
  std::unique_ptr<arrow::ipc::Message> Take() { return std::move(message_); }

 private:
  std::unique_ptr<arrow::ipc::Message> message_;
};

class Body : public arrow::io::RandomAccessFile {
 public:
  Body(const IpcBatch& batch, arrow::io::RandomAccessFile* file)
      : offset_(batch.offset), bytes_(batch.bytes), file_(file) {}

  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  arrow::Result<int64_t> Tell() const override { return at_; }
  arrow::Status Seek(int64_t position) override {
    at_ = position;
    return arrow::Status::OK();
  }
  arrow::Result<int64_t> GetSize() override { return bytes_; }
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const int64_t read, ReadAt(at_, bytes, out));
    at_ += read;
    return read;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override {
    ARROW_ASSIGN_OR_RAISE(auto read, ReadAt(at_, bytes));
    at_ += read->size();
    return read;
  }
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t bytes, void* out) override {
    ARROW_RETURN_NOT_OK(Check(position, bytes));
    return file_->ReadAt(offset_ + position, bytes, out);
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t bytes) override {
    ARROW_RETURN_NOT_OK(Check(position, bytes));
    return file_->ReadAt(offset_ + position, bytes);
  }

 private:
  arrow::Status Check(int64_t position, int64_t bytes) const {
    if (position >= 0 && bytes >= 0 && position <= bytes_ && bytes <= bytes_ - position) {
      return arrow::Status::OK();
    }
    return arrow::Status::Invalid("a buffer of ", bytes, " bytes at ", position, " in a body of ",
                                  bytes_);
  }

  const int64_t offset_, bytes_;
  arrow::io::RandomAccessFile* const file_;
  int64_t at_ = 0;
};

}  // namespace

arrow::Result<IpcBatches> FindBatches(arrow::io::RandomAccessFile& file, int64_t begin) {
  using State = arrow::ipc::MessageDecoder::State;
  auto last = std::make_shared<LastMessage>();
  arrow::ipc::MessageDecoder decoder(last, arrow::default_memory_pool(), /*skip_body=*/true);
  ARROW_ASSIGN_OR_RAISE(const int64_t size, file.GetSize());
  IpcBatches found;
  int64_t at = begin;
  while (decoder.state() != State::EOS && (at < size || decoder.state() != State::INITIAL)) {
    const int64_t need = decoder.next_required_size();
    if (need < 0 || need > size - at) return arrow::Status::Invalid("a message is cut short");
    ARROW_ASSIGN_OR_RAISE(auto bytes, file.ReadAt(at, need));
    if (bytes->size() != need) return arrow::Status::Invalid("a message is cut short");
    at += need;
    ARROW_RETURN_NOT_OK(decoder.Consume(std::move(bytes)));
    const std::unique_ptr<arrow::ipc::Message> message = last->Take();
    if (message == nullptr) continue;
    const int64_t body = message->body_length();
    if (body < 0 || body > size - at) return arrow::Status::Invalid("a body is cut short");
    if (message->type() == arrow::ipc::MessageType::RECORD_BATCH) {
      found.batches.push_back({message->metadata(), at, body});
    }
    at += body;
  }
  found.ended = decoder.state() == State::EOS;
  return found;
}

std::unique_ptr<arrow::io::RandomAccessFile> BodyOf(const IpcBatch& batch,
                                                    arrow::io::RandomAccessFile* file) {
  return std::make_unique<Body>(batch, file);
}

}  // namespace starling
