#include "dense_net/memory_plan.h"

#include <algorithm>
#include <utility>

namespace starling {
namespace {

// A place needed for the steps `first` to `last`: op i runs forward in step i
// and backward in step 2n - 1 - i.
struct Life {
  int width = 0;
  int first = 0, last = -1;  // last < first: no place needed.
  int64_t offset = -1;
  void Join(const Life& other) {
    first = std::min(first, other.first);
    last = std::max(last, other.last);
  }
};

// Lowest offset first, widest life first; the lives of `order` alone.
int64_t Place(std::vector<int> order, std::vector<Life>* lives) {
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return (*lives)[a].width > (*lives)[b].width; });
  int64_t total = 0;
  std::vector<const Life*> placed;  // By offset.
  for (int i : order) {
    Life& life = (*lives)[i];
    if (life.last < life.first) continue;
    life.offset = 0;
    for (const Life* other : placed) {
      const bool together = other->first <= life.last && life.first <= other->last;
      if (together && other->offset < life.offset + life.width) {
        life.offset = std::max(life.offset, other->offset + other->width);
      }
    }
    total = std::max(total, life.offset + life.width);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), &life,
                         [](const Life* a, const Life* b) { return a->offset < b->offset; }),
        &life);
  }
  return total;
}

// The op whose place an output takes: its own, or its input's if in place.
std::vector<int> Roots(const Graph& graph, const std::vector<int>& readers) {
  std::vector<int> roots(graph.ops.size());
  for (size_t i = 0; i < roots.size(); ++i) {
    const Op& op = *graph.ops[i];
    const bool shares = op.in_place() && readers[op.inputs()[0].id] == 1;
    roots[i] = shares ? roots[op.inputs()[0].id] : static_cast<int>(i);
  }
  return roots;
}

void MarkGradients(const Graph& graph, MemoryPlan* plan) {
  const int n = static_cast<int>(graph.ops.size());
  for (int i = 0; i < n; ++i) {
    bool wants = graph.ops[i]->trainable();
    for (const Value& input : graph.ops[i]->inputs()) wants = wants || plan->wants_grad[input.id];
    plan->wants_grad[i] = wants;
  }
  std::vector<bool> written(n, false);
  for (int i = n - 1; i >= 0; --i) {
    const std::vector<Value>& inputs = graph.ops[i]->inputs();
    for (size_t v = 0; v < inputs.size(); ++v) {
      plan->in_add[i][v] = written[inputs[v].id];
      written[inputs[v].id] = true;
    }
  }
}

}  // namespace

MemoryPlan PlanMemory(const Graph& graph, bool training) {
  const int n = static_cast<int>(graph.ops.size());
  MemoryPlan plan;
  plan.wants_grad.resize(n);
  plan.in_add.resize(n);
  MarkGradients(graph, &plan);

  std::vector<int> readers(n, 0), last_reader(n, 0);
  for (int i = 0; i < n; ++i) {
    last_reader[i] = i;
    for (const Value& input : graph.ops[i]->inputs()) {
      ++readers[input.id];
      last_reader[input.id] = i;
    }
  }
  const std::vector<int> roots = Roots(graph, readers);
  std::vector<Life> lives(2 * n);  // Values, then gradients.
  for (int i = 0; i < n; ++i) {
    const int width = graph.ops[i]->width();
    const int backward = 2 * n - 1 - i;
    const Life value{width + graph.ops[i]->kept_width(), i, training ? backward : last_reader[i]};
    const Life grad{width, 2 * n - 1 - last_reader[i], backward};
    lives[i] = value;
    lives[roots[i]].Join(value);
    const bool placed = training && plan.wants_grad[i] && !graph.ops[i]->keeps_gradient();
    if (placed) lives[n + i] = grad;
    if (placed && roots[i] != i) lives[n + roots[i]].Join(grad);
  }
  for (int i = 0; i < n; ++i) {
    if (roots[i] != i) lives[i] = lives[n + i] = Life{};
  }
  std::vector<int> of_rows, of_positions;
  for (int i = 0; i < 2 * n; ++i) {
    (graph.ops[i % n]->sequence() < 0 ? of_rows : of_positions).push_back(i);
  }
  plan.width = Place(std::move(of_rows), &lives);
  plan.position_width = Place(std::move(of_positions), &lives);
  for (int i = 0; i < n; ++i) {
    plan.value.push_back(lives[roots[i]].offset);
    plan.grad.push_back(lives[n + roots[i]].offset);
  }
  return plan;
}

}  // namespace starling
