// A model put together in the job from blocks: each reads values by name and
// gives one of its own. Building checks: FitCustom builds into a scratch graph.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "dense_net/losses.h"
#include "dense_net/models.h"

namespace starling {
namespace {

// A value by name. Embeddings of one dim keep it: some blocks need vectors.
struct Named {
  Value value;
  int dim = 0;  // 0: no vectors of one dim.
};

class Assembly {
 public:
  Assembly(const GraphSpec& spec, GraphBuilder* graph)
      : spec_(spec), options_(spec.model().custom()), graph_(graph) {}

  absl::Status Build() {
    RETURN_IF_ERROR(MakeNamedInputs());
    for (const CustomBlock& block : options_.blocks()) {
      RETURN_IF_ERROR(Annotate(AddBlock(block), absl::StrCat("block `", block.name(), "`")));
    }
    return AddOutputs();
  }

 private:
  absl::Status MakeNamedInputs() {
    inputs_ = MakeInputs(spec_, graph_, true);
    if (inputs_.embedding.id >= 0) values_["embedding"] = {inputs_.embedding, CommonDim()};
    if (inputs_.raw.id >= 0) values_["raw"] = {inputs_.raw};
    if (NeedsOf(spec_.model()).linear) {
      values_[kFirstOrder] = {LinearLogit(spec_, inputs_, graph_)};
    }
    for (const CustomInput& input : options_.inputs()) {
      RETURN_IF_ERROR(CheckNew(input.name()));
      RETURN_IF_ERROR(CheckFeatures(input));
      values_[input.name()] = {
          FeatureColumns(spec_, input.features(), inputs_, input.name(), graph_), DimOf(input)};
    }
    return absl::OkStatus();
  }

  absl::Status CheckFeatures(const CustomInput& input) const {
    if (input.features().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("input `", input.name(), "`: lists no feature"));
    }
    for (const std::string& feature : input.features()) {
      if (HasFeature(spec_, feature)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("input `", input.name(), "`: no feature `", feature, "`"));
    }
    return absl::OkStatus();
  }

  // The dim that all slots, or those of an input that has nothing else, have in common.
  int CommonDim() const {
    int dim = spec_.slots(0).embedding_dim();
    for (const SlotSpec& slot : spec_.slots()) {
      if (slot.embedding_dim() != dim) return 0;
    }
    return dim;
  }
  int DimOf(const CustomInput& input) const {
    int dim = 0;
    for (const std::string& feature : input.features()) {
      const auto slot = std::find_if(spec_.slots().begin(), spec_.slots().end(),
                                     [&](const SlotSpec& s) { return s.name() == feature; });
      if (slot == spec_.slots().end() || (dim != 0 && slot->embedding_dim() != dim)) return 0;
      dim = slot->embedding_dim();
    }
    return dim;
  }

  absl::Status CheckNew(const std::string& name) const {
    if (!name.empty() && !values_.contains(name)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("`", name, "`: a name must be new and not empty"));
  }

  absl::StatusOr<Named> Find(const std::string& name) const {
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [known, unused] : values_) names.push_back(known);
    return absl::InvalidArgumentError(absl::StrCat("nothing before it is called `", name,
                                                   "`; there is ", absl::StrJoin(names, ", ")));
  }

  // The values a block reads, and the same side by side.
  absl::StatusOr<std::vector<Named>> Sources(const CustomBlock& block) const {
    std::vector<Named> sources;
    for (const std::string& name : block.from()) {
      ASSIGN_OR_RETURN(sources.emplace_back(), Find(name));
    }
    if (sources.empty()) return absl::InvalidArgumentError("`from` names nothing");
    return sources;
  }
  Named Joined(const CustomBlock& block, const std::vector<Named>& sources) const {
    if (sources.size() == 1) return sources[0];
    std::vector<Value> values;
    int dim = sources[0].dim;
    for (const Named& source : sources) {
      values.push_back(source.value);
      if (source.dim != dim) dim = 0;
    }
    return {Concat(graph_, block.name() + ".input", std::move(values)), dim};
  }
  absl::Status AddBlock(const CustomBlock& block) {
    RETURN_IF_ERROR(CheckNew(block.name()));
    ASSIGN_OR_RETURN(const std::vector<Named> sources, Sources(block));
    ASSIGN_OR_RETURN(values_[block.name()], Make(block, sources));
    return absl::OkStatus();
  }

  absl::StatusOr<Named> Make(const CustomBlock& block, const std::vector<Named>& sources) {
    const std::string& name = block.name();
    switch (block.kind_case()) {
      case CustomBlock::kAdd:
      case CustomBlock::kMultiply:
        return Elementwise(block, sources);
      case CustomBlock::kFm:
      case CustomBlock::kDots:
      case CustomBlock::kBiInteraction:
        return OfVectors(block, Joined(block, sources));
      case CustomBlock::kConcat:
        return Joined(block, sources);
      default:
        break;
    }
    const Value x = Joined(block, sources).value;
    switch (block.kind_case()) {
      case CustomBlock::kMlp:
        RETURN_IF_ERROR(Checked(block.mlp()));
        return Named{Mlp(block.mlp(), name, x, graph_)};
      case CustomBlock::kLinear: {
        if (block.linear().width() < 1) return absl::InvalidArgumentError("width: use 1 or more");
        FullyConnectedOptions options;
        options.width = block.linear().width();
        return Named{FullyConnected(graph_, name, x, options)};
      }
      case CustomBlock::kCross:
        return Cross(block, x);
      case CustomBlock::kLayerNorm:
        return Named{LayerNorm(graph_, name, x)};
      default:
        return absl::InvalidArgumentError("no kind; name one, as in {mlp: {hidden: [64]}}");
    }
  }

  absl::StatusOr<Named> Elementwise(const CustomBlock& block, const std::vector<Named>& sources) {
    Named result = sources[0];
    for (size_t i = 1; i < sources.size(); ++i) {
      if (sources[i].value.width != result.value.width) {
        return absl::InvalidArgumentError(
            absl::StrCat("`", block.from(0), "` has width ", result.value.width, ", `",
                         block.from(static_cast<int>(i)), "` ", sources[i].value.width));
      }
      const std::string name = absl::StrCat(block.name(), i == 1 ? "" : absl::StrCat(".", i));
      result.value = block.has_add() ? Add(graph_, name, {result.value, sources[i].value})
                                     : Multiply(graph_, name, result.value, sources[i].value, 1);
    }
    return result;
  }

  absl::StatusOr<Named> OfVectors(const CustomBlock& block, const Named& x) {
    if (x.dim == 0 || x.value.width == x.dim) {
      return absl::InvalidArgumentError(
          "needs two embeddings or more of one dim: read `embedding` or an input of id features");
    }
    if (block.has_fm()) return Named{FmSecondOrder(graph_, x.value, x.dim, block.name())};
    if (block.has_dots()) return Named{PairDots(graph_, block.name(), x.value, x.dim)};
    return Named{BiInteraction(graph_, block.name(), x.value, x.dim)};
  }

  absl::StatusOr<Named> Cross(const CustomBlock& block, Value x0) {
    const CrossOptions options = {block.cross().layers(), block.cross().rank(),
                                  block.cross().experts()};
    OptionCheck check;
    CheckCross(options, "layers", &check);
    if (check.bad()) return absl::InvalidArgumentError(check.bad()->message);
    return Named{CrossLayers(options, block.name(), x0, graph_)};
  }

  static absl::Status Checked(const MlpOptions& options) {
    OptionCheck check;
    check.Deep(options);
    check.Require(!options.hidden().empty(), "", "hidden: name the widths");
    return check.bad() ? absl::InvalidArgumentError(check.bad()->message) : absl::OkStatus();
  }

  absl::Status AddOutputs() {
    if (options_.outputs_size() != TaskCount(spec_)) {
      return absl::InvalidArgumentError(absl::StrCat(options_.outputs_size(), " outputs for ",
                                                     TaskCount(spec_), " tasks; name one a task"));
    }
    for (int t = 0; t < options_.outputs_size(); ++t) {
      ASSIGN_OR_RETURN(const Named output, Find(options_.outputs(t)));
      if (output.value.width != 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("output `", options_.outputs(t), "` has width ", output.value.width,
                         ", not 1; put {linear: {width: 1}} behind it"));
      }
      AddTaskLoss(spec_, t, output.value, graph_);
    }
    return absl::OkStatus();
  }

  const GraphSpec& spec_;
  const CustomModel& options_;
  GraphBuilder* const graph_;
  Inputs inputs_;
  std::map<std::string, Named> values_;
};

}  // namespace

absl::Status FitCustom(const GraphSpec& spec) {
  GraphBuilder scratch;
  return Annotate(Assembly(spec, &scratch).Build(), "model custom");
}

void BuildCustom(const GraphSpec& spec, GraphBuilder* graph) {
  Assembly(spec, graph).Build().IgnoreError();  // FitCustom has built it before.
}

}  // namespace starling
