// The models: one short builder function each, one line each in models.cc.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "dense_net/graph.h"
#include "dense_net/ops.h"
#include "dense_net/option_check.h"

namespace starling {

// InvalidArgument if the spec does not describe a model; else its graph.
absl::StatusOr<Graph> BuildGraph(const GraphSpec& spec);

// The builders: append the model to an empty graph and return its logit.
Value BuildLr(const GraphSpec& spec, GraphBuilder* graph);
Value BuildFm(const GraphSpec& spec, GraphBuilder* graph);
Value BuildDnn(const GraphSpec& spec, GraphBuilder* graph);
Value BuildWideDeep(const GraphSpec& spec, GraphBuilder* graph);
Value BuildDeepFm(const GraphSpec& spec, GraphBuilder* graph);
Value BuildDcnV2(const GraphSpec& spec, GraphBuilder* graph);
Value BuildDin(const GraphSpec& spec, GraphBuilder* graph);
Value BuildDien(const GraphSpec& spec, GraphBuilder* graph);

Value BuildFwFm(const GraphSpec& spec, GraphBuilder* graph);
Value BuildNfm(const GraphSpec& spec, GraphBuilder* graph);
Value BuildDcn(const GraphSpec& spec, GraphBuilder* graph);
Value BuildXDeepFm(const GraphSpec& spec, GraphBuilder* graph);
Value BuildPnn(const GraphSpec& spec, GraphBuilder* graph);
Value BuildDlrm(const GraphSpec& spec, GraphBuilder* graph);
Value BuildAutoInt(const GraphSpec& spec, GraphBuilder* graph);
Value BuildFinalMlp(const GraphSpec& spec, GraphBuilder* graph);

// Builders of models that end in losses of their own, one a task or otherwise.
void BuildEsmm(const GraphSpec& spec, GraphBuilder* graph);
void BuildMmoe(const GraphSpec& spec, GraphBuilder* graph);
void BuildPle(const GraphSpec& spec, GraphBuilder* graph);
void BuildDssm(const GraphSpec& spec, GraphBuilder* graph);
// The value of a custom model that holds its first-order part.
inline constexpr char kFirstOrder[] = "first_order";
void BuildCustom(const GraphSpec& spec, GraphBuilder* graph);

// What each model's options must be by themselves,
template <typename Options>
void CheckHidden(const Options& options, OptionCheck* check) {
  check->Deep(options);
  check->Require(options.hidden_size() > 0, "", "needs hidden, as in {hidden: [400, 400, 400]}");
}
void CheckDcn(const DcnOptions& options, OptionCheck* check);
void CheckDcnV2(const DcnV2Options& options, OptionCheck* check);
void CheckXDeepFm(const XDeepFmOptions& options, OptionCheck* check);
void CheckDlrm(const DlrmOptions& options, OptionCheck* check);
void CheckAutoInt(const AutoIntOptions& options, OptionCheck* check);
void CheckFinalMlp(const FinalMlpOptions& options, OptionCheck* check);
void CheckDin(const DinOptions& options, OptionCheck* check);
void CheckDien(const DienOptions& options, OptionCheck* check);
void CheckEsmm(const EsmmOptions& options, OptionCheck* check);
void CheckMmoe(const MmoeOptions& options, OptionCheck* check);
void CheckPle(const PleOptions& options, OptionCheck* check);
void CheckDssm(const DssmOptions& options, OptionCheck* check);
// and beside the features: InvalidArgument if they name one that the spec lacks, and the like.
absl::Status FitFinalMlp(const GraphSpec& spec);
absl::Status FitDin(const GraphSpec& spec);
absl::Status FitDien(const GraphSpec& spec);
absl::Status FitDssm(const GraphSpec& spec);
absl::Status FitCustom(const GraphSpec& spec);

// Parts that models share.

// The deep part of options that have its fields among their own.
template <typename Options>
MlpOptions DeepPart(const Options& options) {
  MlpOptions mlp;
  *mlp.mutable_hidden() = options.hidden();
  mlp.set_activation(options.activation());
  mlp.set_dropout(options.dropout());
  mlp.set_batch_norm(options.batch_norm());
  return mlp;
}

// Embeddings and raws of a model; a value that the spec has none of has id -1.
struct Inputs {
  Value embedding, raw;
};
Inputs MakeInputs(const GraphSpec& spec, GraphBuilder* graph, bool embedding);
// Embeddings and raws side by side.
Value DeepInput(const Inputs& inputs, GraphBuilder* graph);
// A raw feature of several numbers has a column `name[i]` for each; this is the name.
std::string RawFeatureOf(const std::string& column);
// Whether the spec has an id feature or a raw one of that name.
bool HasFeature(const GraphSpec& spec, const std::string& name);
// Embeddings and raws of the named features, side by side. REQUIRES: the spec has some of them.
using FeatureNames = google::protobuf::RepeatedPtrField<std::string>;
Value FeatureColumns(const GraphSpec& spec, const FeatureNames& names, const Inputs& inputs,
                     const std::string& name, GraphBuilder* graph);
// Cross layers of DCN-v2: x0 * u(x) + x, u with a full matrix or, by `rank`, a mixture of
// `experts` of low rank.
struct CrossOptions {
  int layers = 1, rank = 0, experts = 1;
};
void CheckCross(const CrossOptions& options, const std::string& layers_key, OptionCheck* check);
Value CrossLayers(const CrossOptions& options, const std::string& name, Value x0,
                  GraphBuilder* graph);
// First order: bias + one weight an id + one weight a raw.
Value LinearLogit(const GraphSpec& spec, const Inputs& inputs, GraphBuilder* graph);
// The hidden layers.
Value Mlp(const MlpOptions& options, std::string name, Value x, GraphBuilder* graph);
// The hidden layers and a linear layer to one logit.
Value MlpLogit(const MlpOptions& options, Value x, GraphBuilder* graph);

}  // namespace starling
