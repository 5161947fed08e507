// What goes back to a client, as JSON.
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "base/status.h"
#include "serving/infer_request.h"

namespace starling {
namespace {

using Json = nlohmann::ordered_json;

// Names may hold bytes that are not UTF-8; the answer must be JSON all the same.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// What a client would best send for column i of a step.
const char* DatatypeOf(const DeriveStep& step, int i) {
  switch (step.kind_case()) {
    case DeriveStep::kBucketize:
    case DeriveStep::kExpr:
      return "FP64";
    case DeriveStep::kValues:
      if (i > 0) return "FP64";  // Weights.
      return step.values().has_separator() || step.values().weighted() ? "BYTES" : "INT64";
    case DeriveStep::kLookup:
    case DeriveStep::kMatch:
      return i == 0 ? "BYTES" : "INT64";
    default:
      return "INT64";
  }
}

// The model's inputs, each once.
class Inputs {
 public:
  template <typename Feature>
  void Add(const Feature& feature, const char* datatype, int width) {
    if (feature.steps().empty()) AddColumn(feature.name(), datatype, width);
    for (const DeriveStep& step : feature.steps()) {
      for (int i = 0; i < step.columns_size(); ++i) {
        // A sequence's own list; those beside it are features of their own.
        const bool own = step.has_sequence() && i == 0;
        const bool beside = step.has_sequence() && i > 0 &&
                            i < step.columns_size() - (step.sequence().timed() ? 2 : 0);
        if (!beside) AddColumn(step.columns(i), own ? datatype : DatatypeOf(step, i), 0);
      }
    }
  }
  const Json& list() const { return list_; }

 private:
  void AddColumn(const std::string& name, const char* datatype, int width) {
    if (!names_.insert(name).second) return;
    Json shape = {-1};
    if (width > 0) shape.push_back(width);
    list_.push_back({{"name", name}, {"datatype", datatype}, {"shape", shape}});
  }

  std::set<std::string> names_;
  Json list_ = Json::array();
};

// Column `column` of scores (rows, columns).
void AppendTensor(const std::string& name, std::span<const float> scores, size_t column,
                  size_t columns, std::string* out) {
  absl::StrAppend(out, "{\"name\":", Dump(name), ",\"datatype\":\"FP32\",\"shape\":[",
                  scores.size() / columns, "],\"data\":[");
  for (size_t i = column; i < scores.size(); i += columns) {
    char digits[32];
    auto end = std::to_chars(digits, digits + sizeof(digits), scores[i]);
    if (i > column) *out += ',';
    out->append(digits, end.ptr - digits);
  }
  *out += "]}";
}

}  // namespace

std::string InferResponseJson(const InferRequest& request, const BundleInfo& model,
                              const std::vector<std::string>& outputs,
                              std::span<const float> scores) {
  std::string out = absl::StrCat("{\"model_name\":", Dump(model.model()), ",\"model_version\":\"",
                                 model.version(), "\"");
  if (!request.id.empty()) absl::StrAppend(&out, ",\"id\":", request.id);
  if (!request.parameters.empty()) absl::StrAppend(&out, ",\"parameters\":", request.parameters);
  out += ",\"outputs\":[";
  out.reserve(out.size() + 14 * scores.size() + 80 * outputs.size());
  const std::vector<std::string>& wanted = request.outputs.empty() ? outputs : request.outputs;
  for (size_t w = 0; w < wanted.size(); ++w) {
    if (w > 0) out += ',';
    const size_t t = std::find(outputs.begin(), outputs.end(), wanted[w]) - outputs.begin();
    AppendTensor(wanted[w], scores, t, outputs.size(), &out);
  }
  return out + "]}";
}

std::string ModelMetadataJson(const BundleSpec& spec, const std::vector<std::string>& outputs) {
  Json metadata = {{"name", spec.info.model()},
                   {"versions", {std::to_string(spec.info.version())}},
                   {"platform", "starling"},
                   {"inputs", Json::array()},
                   {"outputs", Json::array()}};
  Inputs inputs;
  for (const IdFeature& f : spec.features.ids()) inputs.Add(f, "INT64", 0);
  for (const RawFeature& f : spec.features.raws()) inputs.Add(f, "FP64", f.width());
  metadata["inputs"] = inputs.list();
  for (const std::string& name : outputs) {
    metadata["outputs"].push_back({{"name", name}, {"datatype", "FP32"}, {"shape", {-1}}});
  }
  return Dump(metadata);
}

std::string ErrorJson(absl::string_view message) {
  return Dump(Json{{"error", std::string(message)}});
}

}  // namespace starling
