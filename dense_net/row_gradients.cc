#include "dense_net/row_gradients.h"

#include <algorithm>
#include <functional>

namespace starling {
namespace {

constexpr int64_t kIdsAtOnce = 512;

bool ByRequest(const Batch& batch, const SlotSpec& slot) {
  return !batch.request_of_row.empty() &&
         batch.tables[slot.table()].slots[slot.slot()].entries() == Axis::kRequest;
}

template <typename Fn>
void ForAll(ThreadPool* pool, int n, const Fn& fn) {
  if (pool == nullptr) {
    for (int i = 0; i < n; ++i) fn(i);
  } else {
    pool->ParallelFor(n, std::cref(fn));
  }
}

// A slot of requests reads a row's gradient at the request's first row, which
// gets the sum over the request; one without rows reads the zeros past the end.
void SumRequests(const Step& step, const GraphSpec& spec, const Graph& graph, ThreadPool* pool,
                 StepWorkspace* space) {
  const Batch& batch = *step.batch;
  const Device& device = *step.device;
  if (batch.request_of_row.empty()) return;
  const uint32_t rows = batch.rows;
  space->row_of_request.assign(batch.requests, rows);
  for (uint32_t r = rows; r-- > 0;) space->row_of_request[batch.request_of_row[r]] = r;
  auto first_of = [&](uint32_t r) { return space->row_of_request[batch.request_of_row[r]]; };

  if (graph.linear >= 0) {
    Real* sums = space->request_linear_grad.Reserve(device, int64_t{rows} + 1);
    std::fill_n(sums, int64_t{rows} + 1, Real{0});
    for (uint32_t r = 0; r < rows; ++r) sums[first_of(r)] += space->linear_grad.data()[r];
  }
  if (graph.embedding < 0) return;
  const int64_t width = graph.ops[graph.embedding]->width();
  space->request_columns.clear();
  int column = 0;
  for (const SlotSpec& slot : spec.slots()) {
    if (slot.has_sequence()) continue;
    if (ByRequest(batch, slot) && (step.shared == nullptr || step.shared->InRows(column))) {
      space->request_columns.push_back({column, slot.embedding_dim()});
    }
    column += slot.embedding_dim();
  }
  auto sum = [&](int s) {
    device.Enter();
    const ColumnRange& columns = space->request_columns[s];
    Real* grad = space->embedding_grad.data() + columns.begin;
    for (uint32_t r = 0; r < rows; ++r) {
      if (first_of(r) == r) continue;
      device.kernels().copy(columns.width, grad + r * width, grad + first_of(r) * width, true);
    }
  };
  ForAll(pool, static_cast<int>(space->request_columns.size()), sum);
}

// Likewise for sequences: the positions of a request are those of its first row.
void SumRequestPositions(const Device& device, const Graph& graph, const Batch& batch,
                         StepWorkspace* space) {
  space->position_of_entry.resize(graph.sequences.size());
  for (size_t s = 0; s < graph.sequences.size(); ++s) {
    const SlotSpec& spec = graph.sequences[s].slots[0];
    if (!ByRequest(batch, spec)) continue;
    const Slot& slot = batch.tables[spec.table()].slots[spec.slot()];
    const std::vector<int64_t>& positions = space->positions[s];
    const int64_t width = graph.ops[graph.sequences[s].input]->width();
    Real* grad = space->sequence_grads[s].data();
    for (uint32_t r = 0; r < batch.rows; ++r) {
      const uint32_t first = space->row_of_request[batch.request_of_row[r]];
      if (first == r) continue;
      device.kernels().copy((positions[r + 1] - positions[r]) * width, grad + positions[r] * width,
                            grad + positions[first] * width, true);
    }
    std::vector<uint32_t>& of_entry = space->position_of_entry[s];
    of_entry.assign(slot.index.size(), static_cast<uint32_t>(positions.back()));
    for (uint32_t q = 0; q < batch.requests; ++q) {
      const uint32_t first = space->row_of_request[q];
      for (uint32_t e = slot.offsets[q]; first < batch.rows && e < slot.offsets[q + 1]; ++e) {
        of_entry[e] = static_cast<uint32_t>(positions[first] + e - slot.offsets[q]);
      }
    }
  }
}

void RouteSequences(const Graph& graph, const Batch& batch, StepWorkspace* space) {
  for (size_t s = 0; s < graph.sequences.size(); ++s) {
    int64_t column = 0;
    for (const SlotSpec& slot : graph.sequences[s].slots) {
      GradientRoute& route = space->routes[space->route_offsets[slot.table()] + slot.slot()];
      if (ByRequest(batch, slot)) route.row_of_entry = space->position_of_entry[s].data();
      route.embedding = space->sequence_grads[s].data() + column;
      route.embedding_stride = graph.ops[graph.sequences[s].input]->width();
      route.embedding_dim = slot.embedding_dim();
      route.embedding_offset = slot.embedding_offset();
      column += slot.embedding_dim();
    }
  }
}

void MakeRoutes(const GraphSpec& spec, const Graph& graph, const Batch& batch,
                StepWorkspace* space) {
  int total = 0;
  space->route_offsets.clear();
  for (const TableIds& table : batch.tables) {
    space->route_offsets.push_back(total);
    total += static_cast<int>(table.slots.size());
  }
  space->routes.assign(total, GradientRoute{});
  int64_t column = 0;
  for (const SlotSpec& slot : spec.slots()) {
    if (slot.has_sequence()) continue;
    GradientRoute& route = space->routes[space->route_offsets[slot.table()] + slot.slot()];
    const bool by_request = ByRequest(batch, slot);
    if (by_request) route.row_of_entry = space->row_of_request.data();
    if (graph.embedding >= 0) {
      route.embedding = space->embedding_grad.data() + column;
      route.embedding_stride = graph.ops[graph.embedding]->width();
      route.embedding_dim = slot.embedding_dim();
      route.embedding_offset = slot.embedding_offset();
      column += slot.embedding_dim();
    }
    if (graph.linear >= 0) {
      route.linear = by_request ? space->request_linear_grad.data() : space->linear_grad.data();
      route.linear_offset = slot.linear_offset();
    }
  }
  RouteSequences(graph, batch, space);
}

// Zeros after the last row, for requests without rows.
void ClearPastEnd(const Graph& graph, const Batch& batch, StepWorkspace* space) {
  if (graph.embedding >= 0) {
    const int64_t width = graph.ops[graph.embedding]->width();
    std::fill_n(space->embedding_grad.data() + batch.rows * width, width, Real{0});
  }
  if (graph.linear >= 0) space->linear_grad.data()[batch.rows] = 0;
  for (size_t s = 0; s < graph.sequences.size(); ++s) {
    const int64_t width = graph.ops[graph.sequences[s].input]->width();
    std::fill_n(space->sequence_grads[s].data() + space->positions[s].back() * width, width,
                Real{0});
  }
}

}  // namespace

void SumRowGradients(const Step& step, const GraphSpec& spec, const Graph& graph, ThreadPool* pool,
                     StepWorkspace* space, std::span<const std::span<Real>> row_grads) {
  const Device& device = *step.device;
  const Batch& batch = *step.batch;
  const BatchArrays& arrays = *step.share.arrays;
  ClearPastEnd(graph, batch, space);
  SumRequests(step, spec, graph, pool, space);
  SumRequestPositions(device, graph, batch, space);
  MakeRoutes(spec, graph, batch, space);
  for (size_t t = 0; t < batch.tables.size(); ++t) {
    const TableIds& table = batch.tables[t];
    const GradientRoute* routes = space->routes.data() + space->route_offsets[t];
    const int64_t ids = static_cast<int64_t>(table.ids.size());
    const int width = spec.table_width(static_cast<int>(t));
    const OccurrenceView occurrences = {arrays.tables[t].occurrences,
                                        arrays.tables[t].occurrence_weights,
                                        table.occurrences.entry_bits};
    auto sum_chunk = [&](int chunk) {
      device.Enter();
      const int64_t first = chunk * kIdsAtOnce, n = std::min(kIdsAtOnce, ids - first);
      device.kernels().sum_occurrences(arrays.tables[t].occurrence_offsets + first, occurrences,
                                       static_cast<int>(n), routes, width,
                                       row_grads[t].data() + first * width);
    };
    ForAll(pool, static_cast<int>((ids + kIdsAtOnce - 1) / kIdsAtOnce), sum_chunk);
  }
}

}  // namespace starling
