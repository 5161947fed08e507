// Writing a bundle: files first, manifest last, and nothing left on failure.
#include <google/protobuf/util/json_util.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "base/file_set.h"
#include "base/status.h"
#include "serving/bundle.h"

namespace starling {
namespace {

static_assert(std::endian::native == std::endian::little, "dense.bin is the memory as it is");

// A table's name in a file's name: anything unusual as %XX.
std::string RowFileName(const std::string& table) {
  std::string name = "table-";
  for (char c : table) {
    if (absl::ascii_isalnum(c) || c == '_' || c == '-') {
      name += c;
    } else {
      absl::StrAppendFormat(&name, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return name + ".rows";
}

bool AllFinite(std::span<const float> values) {
  for (float v : values) {
    if (!std::isfinite(v)) return false;
  }
  return true;
}

// Writes the files of one bundle, and knows how to take them back.
class BundleWriter {
 public:
  explicit BundleWriter(const std::string& dir) : dir_(dir), dir_was_there_(PathExists(dir)) {}

  absl::Status Write(const BundleSpec& spec, std::span<const float> dense, const RowEmitter& rows) {
    RETURN_IF_ERROR(MakeDirs(dir_));
    RETURN_IF_ERROR(WriteJson("features.json", spec.features));
    RETURN_IF_ERROR(WriteJson("tables.json", spec.tables));
    RETURN_IF_ERROR(WriteJson("graph.json", spec.graph));
    if (!AllFinite(dense)) return absl::AbortedError("a dense parameter is not finite");
    RETURN_IF_ERROR(WriteBytes(
        "dense.bin", {reinterpret_cast<const char*>(dense.data()), dense.size() * sizeof(float)}));
    BundleInfo info = spec.info;
    info.clear_tables();
    for (int t = 0; t < spec.tables.tables_size(); ++t) {
      std::string name = RowFileName(spec.tables.tables(t).options().name());
      for (const std::string& other : info.tables()) {
        if (other == name) return absl::InvalidArgumentError("two tables have one name: " + name);
      }
      info.add_tables(name);
      RETURN_IF_ERROR(WriteRows(t, name, spec.tables.tables(t), rows));
    }
    return CommitFileSet(dir_, "bundle", info, files_);
  }

  void TakeBack() {
    RemoveAll(JoinPath(dir_, "MANIFEST")).IgnoreError();
    for (const std::string& name : begun_) RemoveAll(JoinPath(dir_, name)).IgnoreError();
    if (!dir_was_there_) RemoveAll(dir_).IgnoreError();
  }

 private:
  absl::Status WriteJson(const std::string& name, const google::protobuf::Message& message) {
    google::protobuf::util::JsonPrintOptions options;
    options.add_whitespace = true;
    options.preserve_proto_field_names = true;
    std::string json;
    if (auto s = google::protobuf::util::MessageToJsonString(message, &json, options); !s.ok()) {
      return absl::InternalError(absl::StrCat(name, ": ", s.ToString()));
    }
    return WriteBytes(name, json);
  }

  absl::Status WriteBytes(const std::string& name, absl::string_view bytes) {
    begun_.push_back(name);
    ASSIGN_OR_RETURN(FileSetEntry entry, WriteSetFile(dir_, name, bytes));
    files_.push_back(std::move(entry));
    return absl::OkStatus();
  }

  absl::Status WriteRows(int t, const std::string& name, const TableSpec& spec,
                         const RowEmitter& rows) {
    begun_.push_back(name);
    RowFileHeader header{.spec = spec};
    for (const SegmentSpec& segment : spec.segments()) header.width += segment.dim();
    ASSIGN_OR_RETURN(auto writer, RowFileWriter::Create(JoinPath(dir_, name), header));
    RETURN_IF_ERROR(rows(t, [&](const RowRecord& row) {
      if (static_cast<int>(row.floats.size()) < header.width) {
        return absl::InternalError(absl::StrCat(name, ": id ", row.id, ": ", row.floats.size(),
                                                " floats where ", header.width, " are due"));
      }
      RowRecord cut = row;
      cut.floats = row.floats.first(header.width);
      if (!AllFinite(cut.floats)) {
        return absl::AbortedError(absl::StrCat(name, ": id ", row.id, ": a weight is not finite"));
      }
      return writer->Append(cut);
    }));
    ASSIGN_OR_RETURN(FileSetEntry entry, writer->Finish());
    files_.push_back(std::move(entry));
    return absl::OkStatus();
  }

  const std::string dir_;
  const bool dir_was_there_;
  std::vector<std::string> begun_;  // Names of files that may exist.
  std::vector<FileSetEntry> files_;
};

}  // namespace

absl::Status WriteBundle(const std::string& dir, const BundleSpec& spec,
                         std::span<const float> dense, const RowEmitter& rows) {
  if (PathExists(JoinPath(dir, "MANIFEST"))) {
    return absl::AlreadyExistsError(absl::StrCat(dir, ": holds a bundle already"));
  }
  BundleWriter writer(dir);
  absl::Status status = writer.Write(spec, dense, rows);
  if (!status.ok()) writer.TakeBack();
  return Annotate(status, absl::StrCat("bundle ", dir));
}

std::string BundleVersionDir(const std::string& root, uint64_t version) {
  return JoinPath(root, absl::StrFormat("v%012d", version));
}

}  // namespace starling
