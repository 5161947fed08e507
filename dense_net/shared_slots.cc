#include "dense_net/shared_slots.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace starling {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// What it saves to share `vectors` distinct vectors of so many columns, in columns of products
// that a row has less. Measured with rows of a layer's products in L2 and L3: the sums by row and
// by vector take the time of the products of 1.3 columns a row, plus 24 columns a distinct vector.
double Saved(int64_t rows, int dim, int64_t vectors) {
  return 0.9 * dim - 1.3 -
         static_cast<double>(vectors) * (24 + dim) /
             static_cast<double>(std::max<int64_t>(rows, 1));
}
// Where anything is shared, the other columns are put side by side for their product, and their
// gradients back: that takes the time of the products of one in so many of them.
constexpr int kMovedByProducts = 6;
// Beyond so many, which bounds the memory too, their products would leave L3.
constexpr int64_t kVectorsMax = 1536;

bool Pays(int64_t rows, int dim, int64_t vectors, Sharing sharing) {
  if (sharing == Sharing::kWhereverPossible) return vectors <= rows;
  return dim > 1 && Saved(rows, dim, vectors) > 0;
}

}  // namespace

// How many ids the slot has, if it has at most one value a row and sharing them pays; else -1.
int SharedSlots::CountIds(const Slot& slot, int64_t rows, int dim, Sharing sharing) {
  if (!slot.weights.empty() || slot.index.size() >= slot.offsets.size()) return -1;
  int64_t ids = slot.distinct;
  if (ids == 0) {
    for (const uint32_t id : slot.index) ids += std::exchange(local_[id], 0) == kNone;
    for (const uint32_t id : slot.index) local_[id] = kNone;
  }
  if (sharing != Sharing::kWhereverPossible && ids > kVectorsMax) return -1;
  return Pays(rows, dim, ids, sharing) ? static_cast<int>(ids) : -1;
}

// A request's pooled values, whatever they are. Its rows stand together: any number of
// requests is near when its rows are.
void SharedSlots::TakeRequests(const Batch& batch, SharedSlot* found) {
  if (first_row_of_request_.empty()) {
    first_row_of_request_.assign(batch.requests, batch.rows);
    for (uint32_t r = batch.rows; r-- > 0;) first_row_of_request_[batch.request_of_row[r]] = r;
  }
  found->vector_of_row = batch.request_of_row.data();
  found->first_row = first_row_of_request_.data();
}

// The ids of a slot, which count for 1. False if a row has two of them.
bool SharedSlots::TakeIds(const Batch& batch, SharedSlot* found) {
  Lists* const lists = &lists_[found->part];
  lists->vector_of_row.resize(batch.rows);
  lists->first_row.clear();
  lists->ids.clear();
  SlotView& entries = parts[found->part].entries;
  const SlotView slot = entries;
  bool single = true;
  for (uint32_t r = 0; r < batch.rows && single; ++r) {
    const uint32_t entry = slot.entry_of_row == nullptr ? r : slot.entry_of_row[r];
    const uint32_t values = slot.offsets[entry + 1] - slot.offsets[entry];
    single = values <= 1;
    lists->vector_of_row[r] = kNone;
    if (values == 0) continue;
    const uint32_t id = slot.index[slot.offsets[entry]];
    if (local_[id] == kNone) {
      local_[id] = static_cast<uint32_t>(lists->ids.size());
      lists->ids.push_back(id);
      lists->first_row.push_back(r);
    }
    lists->vector_of_row[r] = local_[id];
  }
  for (const uint32_t id : lists->ids) local_[id] = kNone;
  if (!single) return false;
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
    local_.resize(std::max(local_.size(), batch.tables[spec.table()].ids.size()), kNone);
  }
  FindCandidates(batch, specs, sharing, readers.share_ids);
  const bool any = !readers.share_ids || Pay(batch.rows, sharing);
  for (SharedSlot& slot : candidates_) {
    bool shared = any && slot.count >= 0;
    if (shared && slot.of_requests) TakeRequests(batch, &slot);
    if (shared && !slot.of_requests) shared = TakeIds(batch, &slot);
    const bool apart = shared && slot.of_requests && readers.take_requests_apart;
    requests_apart = requests_apart || apart;
    if (shared) Keep(slot);
    if (!shared) Leave(slot.column, slot.dim, &rest);
    if (!apart) Leave(slot.column, slot.dim, &in_rows);
  }
}

// All columns of the embedding: those that sharing would pay for have a count of 0 or more.
void SharedSlots::FindCandidates(const Batch& batch, std::span<const SlotSpec> specs,
                                 Sharing sharing, bool share_ids) {
  candidates_.clear();
  const int count = static_cast<int>(specs.size());
  for (int s = 0, column = 0; s < count;) {
    SharedSlot block = {.column = column, .part = s};  // As many as stand side by side.
    while (s < count && parts[s].entries.entry_of_row != nullptr) block.dim += parts[s++].dim;
    block.parts = s - block.part;
    if (block.parts > 0 && Pays(batch.rows, block.dim, batch.requests, sharing)) {
      block.of_requests = true;
      block.count = static_cast<int>(batch.requests);
      candidates_.push_back(block);
      column += block.dim;
      continue;
    }
    const int end = std::max(s, block.part + 1);
    for (s = block.part; s < end; column += parts[s++].dim) {
      SharedSlot one = {.column = column, .dim = parts[s].dim, .count = -1, .part = s, .parts = 1};
      const Slot& slot = batch.tables[specs[s].table()].slots[specs[s].slot()];
      if (share_ids) one.count = CountIds(slot, batch.rows, one.dim, sharing);
      candidates_.push_back(one);
    }
  }
}

// Whether the candidates save more together than it takes to move what is left.
bool SharedSlots::Pay(int64_t rows, Sharing sharing) const {
  if (sharing == Sharing::kWhereverPossible) return true;
  double saved = 0;
  int left = 0;
  for (const SharedSlot& slot : candidates_) {
    if (slot.count < 0) left += slot.dim;
    if (slot.count >= 0) saved += Saved(rows, slot.dim, slot.count);
  }
  return saved * kMovedByProducts >= left;
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
