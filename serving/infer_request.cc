#include "serving/infer_request.h"

#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/status.h"
#include "base/yaml_proto.h"
#include "sample_io/feature_compiler.h"

namespace starling {
namespace {

using Json = nlohmann::json;

constexpr int kDepthMax = 32;

template <typename... Args>
absl::Status Bad(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

enum class Kind { kBool, kInt, kUint, kFloat32, kFloat64, kBytes };
struct Datatype {
  const char* name;
  Kind kind;
  int bits;
};
constexpr Datatype kDatatypes[] = {
    {"BOOL", Kind::kBool, 1},     {"INT8", Kind::kInt, 8},      {"INT16", Kind::kInt, 16},
    {"INT32", Kind::kInt, 32},    {"INT64", Kind::kInt, 64},    {"UINT8", Kind::kUint, 8},
    {"UINT16", Kind::kUint, 16},  {"UINT32", Kind::kUint, 32},  {"UINT64", Kind::kUint, 64},
    {"FP32", Kind::kFloat32, 32}, {"FP64", Kind::kFloat64, 64}, {"BYTES", Kind::kBytes, 0},
};

absl::StatusOr<Datatype> DatatypeOf(const std::string& name) {
  std::vector<std::string> names;
  for (const Datatype& type : kDatatypes) {
    if (name == type.name) return type;
    names.push_back(type.name);
  }
  return Bad("datatype \"", name, "\" is not one of ", names.front(), " … ", names.back(),
             DidYouMean(name, names));
}

ColumnType ColumnTypeOf(Kind kind) {
  if (kind == Kind::kBytes) return ColumnType::kString;
  bool real = kind == Kind::kFloat32 || kind == Kind::kFloat64;
  return real ? ColumnType::kDouble : ColumnType::kInt64;
}

// The integer as the column holds it, or nothing if `value` is none that fits.
bool IntegerOf(const Json& value, const Datatype& type, int64_t* out) {
  if (type.kind == Kind::kBool) {
    if (!value.is_boolean()) return false;
    *out = value.get<bool>();
    return true;
  }
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned()) {
    uint64_t v = value.get<uint64_t>();
    int value_bits = type.kind == Kind::kInt ? type.bits - 1 : type.bits;
    *out = static_cast<int64_t>(v);
    return value_bits == 64 || v >> value_bits == 0;
  }
  *out = value.get<int64_t>();
  int64_t least =
      type.bits == 64 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (type.bits - 1));
  return type.kind == Kind::kInt && *out >= least;
}

// Turns one input tensor into a column.
class TensorReader {
 public:
  TensorReader(std::shared_ptr<const Json> document, const Json& input)
      : document_(std::move(document)), input_(input) {}

  absl::StatusOr<Column> Read(int64_t rows_max) {
    if (!input_["datatype"].is_string()) return Bad("`datatype` must be a string");
    ASSIGN_OR_RETURN(type_, DatatypeOf(input_["datatype"].get_ref<const std::string&>()));
    column_.name = input_["name"].get<std::string>();
    column_.type = ColumnTypeOf(type_.kind);
    if (type_.kind == Kind::kBytes) column_.owner = document_;
    RETURN_IF_ERROR(ReadShape(rows_max));
    const Json& data = input_["data"];
    if (!data.is_array()) return Bad("`data` must be an array (binary tensors are not taken)");
    bool nested = std::any_of(data.begin(), data.end(), [](const Json& v) { return v.is_array(); });
    nested = nested || per_row_ < 0;
    if (rank_ == 1 || nested) {
      RETURN_IF_ERROR(ReadRows(data, nested));
    } else {
      RETURN_IF_ERROR(ReadFlat(data));
    }
    return std::move(column_);
  }

 private:
  absl::Status ReadShape(int64_t rows_max) {
    const Json& shape = input_["shape"];
    bool ok = shape.is_array() && (shape.size() == 1 || shape.size() == 2);
    for (size_t i = 0; ok && i < shape.size(); ++i) ok = shape[i].is_number_integer();
    if (!ok) return Bad("`shape` must be [rows] or [rows, values per row]");
    rank_ = static_cast<int>(shape.size());
    column_.rows = shape[0].get<int64_t>();
    per_row_ = rank_ == 2 ? shape[1].get<int64_t>() : 1;
    if (column_.rows < 0 || per_row_ < -1) return Bad("`shape` ", shape.dump(), " is negative");
    if (column_.rows > rows_max) {
      return Bad(column_.rows, " rows; one request may hold ", rows_max);
    }
    column_.is_list = rank_ == 2 && per_row_ != 1;
    return absl::OkStatus();
  }

  // One element of `data` a row: a value, null, or an array.
  absl::Status ReadRows(const Json& data, bool nested) {
    if (static_cast<int64_t>(data.size()) != column_.rows) {
      return Bad("`shape` says ", column_.rows, " rows, `data` has ", data.size());
    }
    if (rank_ == 1) column_.is_list = nested;
    if (column_.is_list) column_.list_offsets.push_back(0);
    for (size_t i = 0; i < data.size(); ++i) {
      const Json& element = data[i];
      bool in_range = per_row_ < 0 || rank_ == 1 || !element.is_array() ||
                      static_cast<int64_t>(element.size()) == per_row_;
      if (!in_range) return Bad("element ", i, " has ", element.size(), " values, not ", per_row_);
      if (column_.is_list) {
        RETURN_IF_ERROR(AppendList(element, i));
      } else {
        const Json& value = element.is_array() ? element[0] : element;
        RETURN_IF_ERROR(AppendRow(value, i));
      }
    }
    return absl::OkStatus();
  }

  // (rows, per_row_) values without inner brackets.
  absl::Status ReadFlat(const Json& data) {
    if (static_cast<__int128>(column_.rows) * per_row_ != static_cast<__int128>(data.size())) {
      return Bad("`shape` ", input_["shape"].dump(), " does not fit `data` of ", data.size());
    }
    if (!column_.is_list) {
      for (size_t i = 0; i < data.size(); ++i) RETURN_IF_ERROR(AppendRow(data[i], i));
      return absl::OkStatus();
    }
    for (int64_t row = 0; row <= column_.rows; ++row) {
      column_.list_offsets.push_back(Values());
      for (int64_t k = 0; row < column_.rows && k < per_row_; ++k) {
        const Json& value = data[row * per_row_ + k];
        if (!value.is_null()) RETURN_IF_ERROR(AppendValue(value, row * per_row_ + k));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AppendList(const Json& element, size_t i) {
    if (element.is_null()) {
      SetNull(i);
    } else if (!element.is_array()) {
      return Bad("element ", i, " is no array, though others are");
    } else {
      for (const Json& value : element) {
        if (!value.is_null()) RETURN_IF_ERROR(AppendValue(value, i));
      }
    }
    column_.list_offsets.push_back(Values());
    return absl::OkStatus();
  }

  absl::Status AppendRow(const Json& value, size_t i) {
    if (!value.is_null()) return AppendValue(value, i);
    SetNull(i);
    if (column_.type == ColumnType::kString) column_.strings.emplace_back();
    if (column_.type == ColumnType::kDouble) column_.doubles.push_back(0);
    if (column_.type == ColumnType::kInt64) column_.ints.push_back(0);
    return absl::OkStatus();
  }

  absl::Status AppendValue(const Json& value, size_t i) {
    if (type_.kind == Kind::kBytes && value.is_string()) {
      column_.strings.push_back(value.get_ref<const std::string&>());
      return absl::OkStatus();
    }
    if (column_.type == ColumnType::kDouble && value.is_number()) {
      double v = value.get<double>();
      if (type_.kind == Kind::kFloat32) v = static_cast<float>(v);
      if (!std::isfinite(v)) return Bad("element ", i, ": ", value.dump(), " is beyond FP32");
      column_.doubles.push_back(v);
      return absl::OkStatus();
    }
    int64_t integer;
    if (column_.type == ColumnType::kInt64 && IntegerOf(value, type_, &integer)) {
      column_.ints.push_back(integer);
      return absl::OkStatus();
    }
    std::string shown = value.dump().substr(0, 40);
    return Bad("element ", i, ": ", shown, " is not ", type_.name);
  }

  void SetNull(size_t row) {
    if (column_.valid.empty()) column_.valid.assign(column_.rows, 1);
    column_.valid[row] = 0;
  }
  int32_t Values() const {
    return static_cast<int32_t>(column_.ints.size() + column_.doubles.size() +
                                column_.strings.size());
  }

  const std::shared_ptr<const Json> document_;
  const Json& input_;
  Datatype type_{};
  int rank_ = 1;
  int64_t per_row_ = 1;  // -1: any number.
  Column column_;
};

absl::Status ReadInputs(const std::shared_ptr<const Json>& document, const FeatureSet& features,
                        int64_t rows_max, ColumnBatch* columns) {
  const Json& inputs = (*document)["inputs"];
  if (!inputs.is_array() || inputs.empty()) return Bad("`inputs` must be an array of tensors");
  std::vector<std::string> names = ColumnsOf(features, false);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_object() || !inputs[i].contains("name") || !inputs[i]["name"].is_string()) {
      return Bad("inputs[", i, "] has no `name`");
    }
    const std::string& name = inputs[i]["name"].get_ref<const std::string&>();
    std::string where = absl::StrCat("input \"", name, "\"");
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return Bad(where, ": the model has no such feature", DidYouMean(name, names));
    }
    if (columns->Find(name) != nullptr) return Bad(where, " is given twice");
    for (const char* key : {"shape", "datatype", "data"}) {
      if (!inputs[i].contains(key)) return Bad(where, " has no `", key, "`");
    }
    auto column = TensorReader(document, inputs[i]).Read(rows_max);
    if (!column.ok()) return Annotate(column.status(), where);
    if (i > 0 && column->rows != columns->rows) {
      return Bad(where, " has ", column->rows, " rows, \"", columns->columns[0].name, "\" has ",
                 columns->rows);
    }
    columns->rows = column->rows;
    columns->columns.push_back(*std::move(column));
  }
  return absl::OkStatus();
}

// Levels of brackets in a JSON text. Printing JSON recurses, so depth is bounded first.
int DepthOf(absl::string_view body) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < body.size(); ++i) {
    char c = body[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

// A request may name the outputs it wants, or leave the choice open.
absl::Status ReadOutputs(const Json& document, const std::vector<std::string>& known,
                         std::vector<std::string>* wanted) {
  if (!document.contains("outputs")) return absl::OkStatus();
  const Json& outputs = document["outputs"];
  if (!outputs.is_array()) return Bad("`outputs` must be an array");
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].is_object() || !outputs[i].contains("name") ||
        !outputs[i]["name"].is_string()) {
      return Bad("outputs[", i, "] has no `name`");
    }
    std::string name = outputs[i]["name"];
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return Bad("output \"", name, "\": the model has \"", absl::StrJoin(known, "\", \""),
                 known.size() == 1 ? "\" alone" : "\"");
    }
    wanted->push_back(std::move(name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<InferRequest> ParseInferRequest(absl::string_view body, const FeatureSet& features,
                                               const std::vector<std::string>& outputs,
                                               int64_t rows_max) {
  if (DepthOf(body) > kDepthMax) return Bad("the body nests deeper than ", kDepthMax, " levels");
  auto parsed = std::make_shared<Json>();
  try {
    *parsed = Json::parse(body.begin(), body.end());
  } catch (const Json::exception& e) {
    return Bad("the body is not JSON: ", e.what());
  }
  std::shared_ptr<const Json> document = std::move(parsed);
  if (!document->is_object()) return Bad("the body must be a JSON object");
  if (!document->contains("inputs")) return Bad("the body has no `inputs`");
  InferRequest request;
  if (document->contains("id")) {
    if (!(*document)["id"].is_string()) return Bad("`id` must be a string");
    request.id = (*document)["id"].dump();
  }
  if (document->contains("parameters")) {
    if (!(*document)["parameters"].is_object()) return Bad("`parameters` must be an object");
    request.parameters = (*document)["parameters"].dump();
  }
  RETURN_IF_ERROR(ReadOutputs(*document, outputs, &request.outputs));
  RETURN_IF_ERROR(ReadInputs(document, features, rows_max, &request.columns));
  AddMissingColumns(features, &request.columns);
  return request;
}

void AddMissingColumns(const FeatureSet& features, ColumnBatch* columns) {
  for (const std::string& name : ColumnsOf(features, false)) {
    if (columns->Find(name) != nullptr) continue;
    Column column;
    column.name = name;
    column.rows = columns->rows;
    column.valid.assign(columns->rows, 0);
    column.ints.assign(columns->rows, 0);
    columns->columns.push_back(std::move(column));
  }
}

}  // namespace starling
