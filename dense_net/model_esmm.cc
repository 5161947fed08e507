#include "dense_net/losses.h"
#include "dense_net/models.h"

namespace starling {
namespace {

Value Tower(const EsmmOptions& options, const std::string& name, Value x, GraphBuilder* graph) {
  return FullyConnected(graph, name + ".logit", Mlp(DeepPart(options), name, x, graph), {});
}

}  // namespace

void CheckEsmm(const EsmmOptions& options, OptionCheck* check) { check->Deep(options); }

// ESMM (Ma et al. 2018): towers for the click and for conversion given a click
// on shared embeddings. The second learns from all exposed rows through the
// product of both, never from clicked rows alone.
void BuildEsmm(const GraphSpec& spec, GraphBuilder* graph) {
  const EsmmOptions& options = spec.model().esmm();
  const Value x = DeepInput(MakeInputs(spec, graph, true), graph);
  const Value click = Tower(options, "click", x, graph);
  const Value conversion = Tower(options, "conversion", x, graph);
  AddTaskLoss(spec, 0, click, graph);
  const LossPlace place = AddTask(spec, 1, graph);
  OutputSpec given{.name = options.cvr(), .label = place.label};
  given.given = graph->graph().outputs[0].label;
  ProductLoss(graph, place, click, conversion, graph->AddOutput(given));
}

}  // namespace starling
