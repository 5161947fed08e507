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
constexpr int64_t kVectorsMax = 1536;
int64_t MostVectors(int64_t rows, int dim, Sharing sharing) {
  if (sharing == Sharing::kWhereverPossible) return rows;
  if (dim < 2) return 0;
  return std::min(kVectorsMax, rows * (9 * dim - 13) / (10 * (24 + dim)));
}

// A request's pooled values, whatever they are.
bool FindRequests(const Batch& batch, int64_t most, std::vector<uint32_t>* first_row,
                  SharedSlot* found) {
  if (found->vectors.entry_of_row == nullptr || batch.requests > most) return false;
  first_row->assign(batch.requests, batch.rows);
  for (uint32_t r = batch.rows; r-- > 0;) (*first_row)[batch.request_of_row[r]] = r;
  found->count = static_cast<int>(batch.requests);
  found->vector_of_row = batch.request_of_row.data();
  return true;
}

}  // namespace

// The ids of a slot with at most one value a row, which counts for 1.
bool SharedSlots::FindIds(const Batch& batch, int64_t most, Lists* lists, SharedSlot* found) {
  const SlotView slot = found->vectors;
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
  found->vectors.offsets = iota_.data();
  found->vectors.index = lists->ids.data();
  found->vector_of_row = lists->vector_of_row.data();
  return true;
}

void SharedSlots::Find(const Step& step, std::span<const SlotSpec> specs, Sharing sharing) {
  const Batch& batch = *step.batch;
  slots.clear();
  rest.clear();
  vectors = 0;
  lists_.resize(std::max(lists_.size(), specs.size()));
  while (iota_.size() <= batch.rows) iota_.push_back(static_cast<uint32_t>(iota_.size()));
  int column = 0;
  for (size_t s = 0; s < specs.size(); ++s) {
    const int64_t most = MostVectors(batch.rows, specs[s].embedding_dim(), sharing);
    Lists& lists = lists_[s];
    lists.vector_of_row.resize(batch.rows);
    lists.first_row.clear();
    lists.ids.clear();
    local_.resize(std::max(local_.size(), batch.tables[specs[s].table()].ids.size()), kNone);

    SharedSlot found;
    found.column = column;
    found.dim = specs[s].embedding_dim();
    found.offset = specs[s].embedding_offset();
    found.first = vectors;
    found.vectors = ViewSlot(step, specs[s]);
    column += found.dim;
    const bool shared = FindIds(batch, most, &lists, &found);
    for (uint32_t id : lists.ids) local_[id] = kNone;
    if (shared || FindRequests(batch, most, &lists.first_row, &found)) {
      found.vectors.entry_of_row = nullptr;
      found.first_row = lists.first_row.data();
      slots.push_back(found);
      vectors += found.count + 1;
    } else if (!rest.empty() && rest.back().begin + rest.back().width == found.column) {
      rest.back().width += found.dim;
    } else {
      rest.push_back({found.column, found.dim});
    }
  }
}

}  // namespace starling
