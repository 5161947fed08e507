// What goes back to a client, as JSON.
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "serving/infer_request.h"

namespace starling {
namespace {

using Json = nlohmann::ordered_json;

// Names may hold bytes that are not UTF-8; the answer must be JSON all the same.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string InferResponseJson(const InferRequest& request, const BundleInfo& model,
                              std::span<const float> scores) {
  std::string out = absl::StrCat("{\"model_name\":", Dump(model.model()), ",\"model_version\":\"",
                                 model.version(), "\"");
  if (!request.id.empty()) absl::StrAppend(&out, ",\"id\":", request.id);
  if (!request.parameters.empty()) absl::StrAppend(&out, ",\"parameters\":", request.parameters);
  absl::StrAppend(&out, ",\"outputs\":[{\"name\":\"probability\",\"datatype\":\"FP32\",\"shape\":[",
                  scores.size(), "],\"data\":[");
  out.reserve(out.size() + 14 * scores.size() + 8);
  for (size_t i = 0; i < scores.size(); ++i) {
    char digits[32];
    auto end = std::to_chars(digits, digits + sizeof(digits), scores[i]);
    if (i > 0) out += ',';
    out.append(digits, end.ptr - digits);
  }
  return out + "]}]}";
}

std::string ModelMetadataJson(const BundleSpec& spec) {
  Json metadata = {{"name", spec.info.model()},
                   {"versions", {std::to_string(spec.info.version())}},
                   {"platform", "starling"},
                   {"inputs", Json::array()},
                   {"outputs", Json::array()}};
  auto tensor = [](const std::string& name, const char* datatype) {
    return Json{{"name", name}, {"datatype", datatype}, {"shape", {-1}}};
  };
  for (const IdFeature& f : spec.features.ids()) {
    metadata["inputs"].push_back(tensor(f.name(), "INT64"));
  }
  for (const RawFeature& f : spec.features.raws()) {
    metadata["inputs"].push_back(tensor(f.name(), "FP64"));
  }
  metadata["outputs"].push_back(tensor("probability", "FP32"));
  return Dump(metadata);
}

std::string ErrorJson(absl::string_view message) {
  return Dump(Json{{"error", std::string(message)}});
}

}  // namespace starling
