#include "sample_io/page_pool.h"

#include <arrow/memory_pool.h>
#include <arrow/status.h>

#include <string>

namespace starling {
namespace {

class Pool : public arrow::MemoryPool {
 public:
  using arrow::MemoryPool::Allocate;
  using arrow::MemoryPool::Free;
  using arrow::MemoryPool::Reallocate;

  arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t** out) override {
    ARROW_RETURN_NOT_OK(Check(size));
    return base_->Allocate(size, alignment, out);
  }
  arrow::Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
                           uint8_t** ptr) override {
    ARROW_RETURN_NOT_OK(Check(new_size));
    return base_->Reallocate(old_size, new_size, alignment, ptr);
  }
  void Free(uint8_t* buffer, int64_t size, int64_t alignment) override {
    base_->Free(buffer, size, alignment);
  }
  void ReleaseUnused() override { base_->ReleaseUnused(); }
  int64_t bytes_allocated() const override { return base_->bytes_allocated(); }
  int64_t max_memory() const override { return base_->max_memory(); }
  int64_t total_bytes_allocated() const override { return base_->total_bytes_allocated(); }
  int64_t num_allocations() const override { return base_->num_allocations(); }
  std::string backend_name() const override { return base_->backend_name(); }

 private:
  static arrow::Status Check(int64_t size) {
    if (size <= kPageBytesMax) return arrow::Status::OK();
    return arrow::Status::Invalid("a page claims ", size, " bytes, more than any has");
  }

  arrow::MemoryPool* const base_ = arrow::default_memory_pool();
};

}  // namespace

arrow::MemoryPool* PagePool() {
  static arrow::MemoryPool* const pool = new Pool;
  return pool;
}

}  // namespace starling
