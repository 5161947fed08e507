// starling inspect: what is this path? A data set, a checkpoint, a bundle, a
// directory of several, or a row file. `inspect data` is in inspect_data.cc.
#include <gflags/gflags.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/file_set.h"
#include "base/status.h"
#include "embedding_store/embedding_table.h"
#include "embedding_store/row_file.h"
#include "google/protobuf/util/json_util.h"
#include "sample_io/source.h"
#include "scheduler/checkpoint.h"
#include "scheduler/plan_checks.h"
#include "serving/bundle.pb.h"
#include "tools/flags.h"
#include "tools/inspect_data.h"
#include "tools/verbs.h"

DEFINE_bool(verify, false, "read every byte and check every checksum");

namespace starling {
namespace {

using Json = nlohmann::ordered_json;

// ---- Row files ----

bool IsRowFile(absl::string_view path) {
  return absl::EndsWith(path, ".rows") || absl::EndsWith(path, absl::StrCat(".rows", kColdSuffix));
}

absl::StatusOr<Json> DescribeRowFile(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<RowFileReader> reader, RowFileReader::Open(path));
  const RowFileHeader& header = reader->header();
  Json out = {{"kind", "row file"},
              {"path", path},
              {"table", header.spec.options().name()},
              {"rows", reader->rows()},
              {"weights_per_row", header.width},
              {"state_per_row", header.state_size}};
  if (!FLAGS_verify) return out;
  int64_t tombstones = 0, not_finite = 0;
  std::map<std::string, std::string> extras;
  auto look = [&](const RowRecord& row) {
    tombstones += row.tombstone;
    not_finite += !std::all_of(row.floats.begin(), row.floats.end(),
                               [](float f) { return std::isfinite(f); });
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(reader->ReadAll(look, &extras));
  out["tombstones"] = tombstones;
  out["rows_not_finite"] = not_finite;
  for (const auto& [name, bytes] : extras) out["extras"][name] = bytes.size();
  out["verified"] = true;
  return out;
}

// ---- File sets ----

absl::StatusOr<Json> InfoJson(const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::util::JsonPrintOptions print;
  print.preserve_proto_field_names = true;
  auto status = google::protobuf::util::MessageToJsonString(message, &text, print);
  if (!status.ok()) return absl::InternalError(status.ToString());
  return Json::parse(text);
}

Json DescribeTables(const TableSet& tables) {
  Json out = Json::array();
  for (const TableSpec& table : tables.tables()) {
    Json segments = Json::array();
    for (const SegmentSpec& s : table.segments()) {
      segments.push_back(absl::StrCat(s.name(), " ", s.dim()));
    }
    out.push_back({{"name", table.options().name()}, {"segments", segments}});
  }
  return out;
}

absl::StatusOr<Json> DescribeFiles(const std::string& dir, const std::vector<FileSetEntry>& files) {
  Json out = Json::array();
  for (const FileSetEntry& file : files) {
    Json entry = {{"name", file.name}, {"bytes", file.bytes}};
    if (IsRowFile(file.name)) {
      ASSIGN_OR_RETURN(Json rows, DescribeRowFile(JoinPath(dir, file.name)));
      entry["rows"] = rows["rows"];
      if (FLAGS_verify) entry["rows_not_finite"] = rows["rows_not_finite"];
    }
    out.push_back(entry);
  }
  return out;
}

absl::StatusOr<Json> DescribeCheckpoint(const CheckpointInfo& info) {
  ASSIGN_OR_RETURN(Json state, InfoJson(info.state()));
  ASSIGN_OR_RETURN(Json position, InfoJson(info.position()));
  return Json{{"job", info.job()},
              {"model", ModelName(info.graph().model())},
              {"seed", info.seed()},
              {"state", state},
              {"position", position},
              {"id_features", info.features().ids_size()},
              {"raw_features", info.features().raws_size()},
              {"tables", DescribeTables(info.tables())},
              {"base", info.has_base() ? Json(info.base()) : Json(nullptr)}};
}

absl::StatusOr<Json> DescribeFileSet(const std::string& dir) {
  CheckpointInfo checkpoint;
  BundleInfo bundle;
  Json out = {{"kind", "checkpoint"}, {"path", dir}};
  absl::StatusOr<std::vector<FileSetEntry>> files = OpenFileSet(dir, "checkpoint", &checkpoint);
  if (absl::IsInvalidArgument(files.status())) {  // Of another kind.
    files = OpenFileSet(dir, "bundle", &bundle);
    out["kind"] = "bundle";
  }
  RETURN_IF_ERROR(files.status());
  absl::StatusOr<Json> info =
      out["kind"] == "bundle" ? InfoJson(bundle) : DescribeCheckpoint(checkpoint);
  RETURN_IF_ERROR(info.status());
  out.update(*info);
  if (FLAGS_verify && out["kind"] == "checkpoint") {  // With all that it rests on.
    ASSIGN_OR_RETURN(const Checkpoint whole, OpenCheckpoint(dir));
    RETURN_IF_ERROR(VerifyCheckpoint(whole));
  } else if (FLAGS_verify) {
    RETURN_IF_ERROR(VerifyFileSet(dir, *files));
  }
  ASSIGN_OR_RETURN(out["files"], DescribeFiles(dir, *files));
  if (FLAGS_verify) out["verified"] = true;
  return out;
}

// ---- Data sets ----

// Nulls, least and greatest of the rows seen so far.
class ColumnLook {
 public:
  void Add(const Column& column) {
    const int64_t values = column.is_list ? 0 : column.rows;
    for (int64_t i = 0; i < column.rows; ++i) nulls_ += column.IsNull(i);
    for (int64_t i = 0; i < values; ++i) {
      if (!column.IsNull(i)) AddValue(column, i);
    }
    if (column.is_list)
      list_values_ += column.list_offsets.empty() ? 0 : column.list_offsets.back();
    is_list_ = column.is_list;
  }
  void Describe(Json* out) const {
    (*out)["nulls"] = nulls_;
    if (is_list_) (*out)["list_values"] = list_values_;
    if (least_.is_null()) return;
    (*out)["min"] = least_;
    (*out)["max"] = greatest_;
  }

 private:
  void AddValue(const Column& column, int64_t i) {
    switch (column.type) {
      case ColumnType::kInt64:
        return Keep(column.ints[i]);
      case ColumnType::kDouble:
        if (std::isfinite(column.doubles[i])) Keep(column.doubles[i]);
        return;
      case ColumnType::kString:
        return Keep(std::string(column.strings[i].substr(0, 40)));
    }
  }
  template <typename T>
  void Keep(const T& value) {
    if (least_.is_null() || value < least_.get<T>()) least_ = value;
    if (greatest_.is_null() || value > greatest_.get<T>()) greatest_ = value;
  }

  int64_t nulls_ = 0, list_values_ = 0;
  bool is_list_ = false;
  Json least_, greatest_;
};

absl::StatusOr<Json> DescribeData(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<SampleSource> source, SampleSource::Open({path}));
  std::vector<std::string> names, files;
  for (const ColumnSchema& column : source->schema()) names.push_back(column.name);
  for (const Split& split : source->splits()) {
    if (files.empty() || files.back() != split.file) files.push_back(split.file);
  }
  std::vector<ColumnLook> looks(names.size());
  const int splits = FLAGS_verify ? static_cast<int>(source->splits().size()) : 1;
  int64_t looked = 0;
  for (int s = 0; s < splits; ++s) {
    ASSIGN_OR_RETURN(ColumnBatch batch, source->Read(s, names));
    for (size_t c = 0; c < names.size(); ++c) looks[c].Add(batch.columns[c]);
    looked += batch.rows;
  }
  Json out = {{"kind", "data set"},        {"path", path},
              {"files", files.size()},     {"first_file", files.front()},
              {"last_file", files.back()}, {"splits", source->splits().size()},
              {"rows", source->rows()},    {"rows_looked_at", looked}};
  for (size_t c = 0; c < names.size(); ++c) {
    Json column = {{"name", names[c]}, {"type", source->schema()[c].type}};
    looks[c].Describe(&column);
    out["columns"].push_back(column);
  }
  if (FLAGS_verify) out["verified"] = true;
  return out;
}

// ---- Which of these ----

// A damaged one among several does not hide the others: its error stands in its
// place, and is the command's once all have been printed.
absl::StatusOr<Json> DescribeSets(const std::string& path, const std::vector<std::string>& names,
                                  absl::Status* damage) {
  Json out = {{"kind", "directory"}, {"path", path}, {"sets", Json::array()}};
  for (const std::string& name : names) {
    absl::StatusOr<Json> set = DescribeFileSet(JoinPath(path, name));
    damage->Update(set.status());
    out["sets"].push_back(set.ok() ? *set
                                   : Json{{"path", JoinPath(path, name)},
                                          {"error", std::string(set.status().message())}});
  }
  return out;
}

absl::StatusOr<Json> DescribePath(const std::string& path, absl::Status* damage) {
  const bool glob = path.find_first_of("*?[{") != std::string::npos || path[0] == '@' ||
                    absl::StrContains(path, "://");
  if (!glob && !PathExists(path)) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file or directory"));
  }
  if (IsRowFile(path)) return DescribeRowFile(path);
  if (PathExists(JoinPath(path, "MANIFEST"))) return DescribeFileSet(path);
  struct stat st;
  if (glob || ::stat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) return DescribeData(path);
  ASSIGN_OR_RETURN(std::vector<std::string> sets, ListFileSets(path));
  if (sets.empty()) return DescribeData(path);
  return DescribeSets(path, sets, damage);
}

// Strings of the data need not be UTF-8.
std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A mapping as indented lines; a list of mappings as one line each.
void Print(const Json& json, int indent) {
  size_t width = 0;
  for (const auto& [key, value] : json.items()) width = std::max(width, key.size());
  for (const auto& [key, value] : json.items()) {
    if (value.is_object()) {
      std::printf("%*s%s:\n", indent, "", key.c_str());
      Print(value, indent + 2);
    } else if (value.is_array() && !value.empty() && value[0].is_object()) {
      std::printf("%*s%s:\n", indent, "", key.c_str());
      for (const Json& element : value) {
        if (element.contains("files")) {
          Print(element, indent + 2);
          std::printf("\n");
        } else {
          std::printf("%*s%s\n", indent + 2, "", Text(element).c_str());
        }
      }
    } else {
      std::printf("%*s%-*s  %s\n", indent, "", static_cast<int>(width), key.c_str(),
                  value.is_string() ? value.get<std::string>().c_str() : Text(value).c_str());
    }
  }
}

absl::Status RunInspect(const VerbCall& call) {
  // A lone `data` is a path like any other.
  if (call.args.size() > 1 && call.args[0] == "data") {
    if (FLAGS_verify) return absl::InvalidArgumentError("inspect data reads all without --verify");
    return RunInspectData({call.args.begin() + 1, call.args.end()});
  }
  RETURN_IF_ERROR(CheckNoDataFlags());
  if (call.args.size() != 1) {
    return absl::InvalidArgumentError("which one? Give a data set, checkpoint, bundle or row file");
  }
  absl::Status damage;
  ASSIGN_OR_RETURN(Json report, DescribePath(call.args[0], &damage));
  if (FLAGS_json) {
    std::printf("%s\n", Text(report).c_str());
  } else {
    Print(report, 0);
  }
  return damage;
}

}  // namespace

Verb InspectVerb() {
  return {"inspect",
          "Describe a data set, checkpoint, bundle or row file",
          "starling inspect PATH [--verify] [--json]\n"
          "       starling inspect data PATTERN... [--columns A,B] [--against PATTERN] [--json]",
          {"verify", "against", "columns", "where", "threads", "json"},
          RunInspect};
}

}  // namespace starling
