#include "absl/strings/str_cat.h"
#include "dense_net/losses.h"
#include "dense_net/models.h"

namespace starling {
namespace {

constexpr int kExpertsMax = 256;

// `count` MLPs of their own on one input, side by side: the first layers are one
// matrix product, the later ones one grouped product a layer.
Value Experts(const MlpOptions& options, int count, const std::string& name, Value x,
              GraphBuilder* graph) {
  for (int i = 0; i < options.hidden_size(); ++i) {
    const std::string layer = absl::StrCat(name, ".", i);
    FullyConnectedOptions wide;
    wide.width = count * options.hidden(i);
    x = i == 0 ? FullyConnected(graph, layer, x, wide)
               : GroupedLinear(graph, layer, x, count, options.hidden(i));
    if (options.batch_norm()) x = BatchNorm(graph, layer + ".norm", x);
    x = Activate(graph, layer + ".activation", x, options.activation());
    if (options.dropout() > 0) x = Dropout(graph, layer + ".dropout", x, options.dropout());
  }
  return x;
}

// The experts' mean, weighted by a softmax of `x`.
Value Gate(const std::string& name, Value x, const std::vector<Value>& experts, int width,
           GraphBuilder* graph) {
  FullyConnectedOptions gates;
  gates.width = 0;
  for (const Value& value : experts) gates.width += value.width / width;
  const Value logits = FullyConnected(graph, name, x, gates);
  return Mix(graph, name + ".mix", Softmax(graph, name + ".softmax", logits), experts, width);
}

int WidthOf(const MlpOptions& expert) { return expert.hidden(expert.hidden_size() - 1); }

std::string Task(const GraphSpec& spec, int t) {
  return spec.tasks_size() > 0 ? spec.tasks(t).name() : "task";
}

void TowerLoss(const GraphSpec& spec, int t, const MlpOptions& tower, Value x,
               GraphBuilder* graph) {
  const std::string name = absl::StrCat(Task(spec, t), ".tower");
  const Value top = Mlp(tower, name, x, graph);
  AddTaskLoss(spec, t, FullyConnected(graph, name + ".logit", top, {}), graph);
}

// What mixes experts has both MLPs in common.
template <typename Options>
void CheckExperts(const Options& options, OptionCheck* check) {
  check->Deep(options.expert(), "expert");
  check->Deep(options.tower(), "tower");
  check->Require(options.expert().hidden_size() > 0, "expert",
                 "expert needs hidden, as in {hidden: [64]}");
  check->Require(!options.expert().has_residual(), "expert.residual",
                 "residual: experts have none; a tower may");
}

}  // namespace

void CheckMmoe(const MmoeOptions& options, OptionCheck* check) {
  CheckExperts(options, check);
  check->Range("experts", options.experts(), 1, kExpertsMax);
}

void CheckPle(const PleOptions& options, OptionCheck* check) {
  CheckExperts(options, check);
  check->Range("levels", options.levels(), 1, 16);
  check->Range("shared_experts", options.shared_experts(), 1, kExpertsMax);
  check->Range("task_experts", options.task_experts(), 1, kExpertsMax);
}

// MMoE (Ma et al. 2018): shared experts, a gate and a tower for each task.
void BuildMmoe(const GraphSpec& spec, GraphBuilder* graph) {
  const MmoeOptions& options = spec.model().mmoe();
  const Value x = DeepInput(MakeInputs(spec, graph, true), graph);
  const Value experts = Experts(options.expert(), options.experts(), "experts", x, graph);
  for (int t = 0; t < TaskCount(spec); ++t) {
    const Value mixed =
        Gate(Task(spec, t) + ".gate", x, {experts}, WidthOf(options.expert()), graph);
    TowerLoss(spec, t, options.tower(), mixed, graph);
  }
}

// PLE (Tang et al. 2020): each level has shared experts and experts of each
// task; a task's gate sees its own and the shared ones, the shared gate, which
// feeds the next level's shared experts, sees all.
void BuildPle(const GraphSpec& spec, GraphBuilder* graph) {
  const PleOptions& options = spec.model().ple();
  const int tasks = TaskCount(spec), width = WidthOf(options.expert());
  Value shared = DeepInput(MakeInputs(spec, graph, true), graph);
  std::vector<Value> own(tasks, shared);
  for (int level = 0; level < options.levels(); ++level) {
    auto name = [&](const std::string& whose, const char* part) {
      return absl::StrCat(whose, ".", level, ".", part);
    };
    std::vector<Value> all;
    for (int t = 0; t < tasks; ++t) {
      all.push_back(Experts(options.expert(), options.task_experts(),
                            name(Task(spec, t), "experts"), own[t], graph));
    }
    all.push_back(Experts(options.expert(), options.shared_experts(), name("shared", "experts"),
                          shared, graph));
    for (int t = 0; t < tasks; ++t) {
      own[t] = Gate(name(Task(spec, t), "gate"), own[t], {all[t], all[tasks]}, width, graph);
    }
    if (level + 1 < options.levels()) {
      shared = Gate(name("shared", "gate"), shared, all, width, graph);
    }
  }
  for (int t = 0; t < tasks; ++t) TowerLoss(spec, t, options.tower(), own[t], graph);
}

}  // namespace starling
