#include "dense_net/shared_slots.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace starling {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// The most distinct vectors with which sharing is faster. Measured with rows of a
// layer's products in L2 and L3: the sums by row and by vector take the time of the
// products of 1.3 columns a row, plus 24 columns a distinct vector. Beyond kVectorsMax, which
// bounds the memory too, they would leave L3.
int64_t MostVectors(int64_t rows, int dim, Sharing sharing) {
  if (sharing == Sharing::kWhereverPossible) return rows;
  return dim < 2 ? 0 : rows * (9 * dim - 13) / (10 * (24 + dim));
}
constexpr int64_t kVectorsMax = 1536;

}  // namespace

// A request's pooled values, whatever they are. Its rows stand together: any number of
// requests is near when its rows are.
bool SharedSlots::FindRequests(const Batch& batch, Sharing sharing, SharedSlot* found) {
  if (batch.requests > MostVectors(batch.rows, found->dim, sharing)) return false;
  if (first_row_of_request_.empty()) {
    first_row_of_request_.assign(batch.requests, batch.rows);
    for (uint32_t r = batch.rows; r-- > 0;) first_row_of_request_[batch.request_of_row[r]] = r;
  }
  found->of_requests = true;
  found->count = static_cast<int>(batch.requests);
  found->vector_of_row = batch.request_of_row.data();
  found->first_row = first_row_of_request_.data();
  return true;
}

// The ids of a slot with at most one value a row, which counts for 1.
bool SharedSlots::FindIds(const Batch& batch, Sharing sharing, Lists* lists, SharedSlot* found) {
  int64_t most = MostVectors(batch.rows, found->dim, sharing);
  if (sharing != Sharing::kWhereverPossible) most = std::min(most, kVectorsMax);
  SlotView& entries = parts[found->part].entries;
  const SlotView slot = entries;
  if (slot.weights != nullptr) return false;
  for (uint32_t r = 0; r < batch.rows; ++r) {
    const uint32_t entry = slot.entry_of_row == nullptr ? r : slot.entry_of_row[r];
    const uint32_t values = slot.offsets[entry + 1] - slot.offsets[entry];
    if (values > 1) return false;
    lists->vector_of_row[r] = kNone;
    if (values == 0) continue;
    const uint32_t id = slot.index[slot.offsets[entry]];
    if (local_[id] == kNone) {
      if (std::ssize(lists->ids) == most) return false;
      local_[id] = static_cast<uint32_t>(lists->ids.size());
      lists->ids.push_back(id);
      lists->first_row.push_back(r);
    }
    lists->vector_of_row[r] = local_[id];
  }
  const auto count = static_cast<uint32_t>(lists->ids.size());
  for (uint32_t& v : lists->vector_of_row) v = std::min(v, count);
  found->count = static_cast<int>(count);
  entries.offsets = iota_.data();
  entries.index = lists->ids.data();
  found->vector_of_row = lists->vector_of_row.data();
  found->first_row = lists->first_row.data();
  return true;
}

void SharedSlots::Keep(SharedSlot found) {
  for (int p = found.part; p < found.part + found.parts; ++p) {
    parts[p].entries.entry_of_row = nullptr;
  }
  found.first = vectors;
  vectors += found.count + 1;
  slots.push_back(found);
}

void SharedSlots::Leave(int column, int dim, std::vector<ColumnRange>* ranges) {
  if (!ranges->empty() && ranges->back().begin + ranges->back().width == column) {
    ranges->back().width += dim;
  } else {
    ranges->push_back({column, dim});
  }
}

void SharedSlots::Find(const Step& step, std::span<const SlotSpec> specs, Sharing sharing,
                       Readers readers) {
  const Batch& batch = *step.batch;
  const int count = static_cast<int>(specs.size());
  slots.clear();
  parts.clear();
  rest.clear();
  in_rows.clear();
  requests_apart = false;
  requests = static_cast<int>(batch.requests);
  first_row_of_request_.clear();
  vectors = 0;
  lists_.resize(std::max(lists_.size(), specs.size()));
  while (iota_.size() <= batch.rows) iota_.push_back(static_cast<uint32_t>(iota_.size()));
  for (const SlotSpec& spec : specs) {
    parts.push_back({ViewSlot(step, spec), spec.embedding_offset(), spec.embedding_dim()});
  }
  for (int s = 0, column = 0; s < count;) {
    SharedSlot block = {.column = column, .part = s};  // As many as stand side by side.
    while (s < count && parts[s].entries.entry_of_row != nullptr) block.dim += parts[s++].dim;
    block.parts = s - block.part;
    if (block.parts > 0 && FindRequests(batch, sharing, &block)) {
      requests_apart = readers.take_requests_apart;
      if (!requests_apart) Leave(column, block.dim, &in_rows);
      Keep(block);
      column += block.dim;
      continue;
    }
    const int end = std::max(s, block.part + 1);
    for (s = block.part; s < end; column += parts[s++].dim) {
      SharedSlot one = {.column = column, .dim = parts[s].dim, .part = s, .parts = 1};
      Lists& lists = lists_[s];
      lists.vector_of_row.resize(batch.rows);
      lists.first_row.clear();
      lists.ids.clear();
      local_.resize(std::max(local_.size(), batch.tables[specs[s].table()].ids.size()), kNone);
      const bool shared = readers.share_ids && FindIds(batch, sharing, &lists, &one);
      for (uint32_t id : lists.ids) local_[id] = kNone;
      if (shared) {
        Keep(one);
      } else {
        Leave(column, one.dim, &rest);
      }
      Leave(column, one.dim, &in_rows);
    }
  }
}

void SharedSlots::Pool(const SharedSlot& slot, const Device& device, Real* vectors) const {
  int at = 0;
  for (int p = slot.part; p < slot.part + slot.parts; ++p) {
    device.kernels().pool(parts[p].entries, 0, slot.count, parts[p].offset, parts[p].dim,
                          vectors + at, slot.dim);
    at += parts[p].dim;
  }
}

}  // namespace starling
