#include "sample_io/merged_schema.h"

#include <map>

#include "absl/strings/str_cat.h"

namespace starling {
namespace {

struct Merged {
  SampleFile::Field field;
  const SampleFile* typed_by = nullptr;  // The first file that knows its type.
  int files = 0;                         // That have the column.
  std::string note;
};

absl::Status OtherType(const SampleFile& file, const SampleFile::Field& field,
                       const Merged& known) {
  return absl::FailedPreconditionError(
      absl::StrCat(file.path(), ": column ", field.name, " is ", field.type, ", but ",
                   known.field.type, " in ", known.typed_by->path(),
                   "; write the files with one schema, or train on those that share one"));
}

absl::Status Add(const SampleFile& file, const SampleFile::Field& field, Merged* known) {
  ++known->files;
  if (known->typed_by == nullptr || (known->field.null && !field.null)) {
    known->field = field;
    known->typed_by = &file;
  }
  if (field.null) return absl::OkStatus();
  if (field.family != known->field.family) return OtherType(file, field, *known);
  if (field.width == known->field.width || !known->note.empty()) return absl::OkStatus();
  known->note =
      absl::StrCat("column ", field.name, " is ", field.type, " in ", file.path(), ", but ",
                   known->field.type, " in ", known->typed_by->path(), "; both are read alike");
  return absl::OkStatus();
}

// A column that some files lack: which has it, and which does not.
std::string Lacking(const std::string& name, const Merged& known,
                    const std::vector<const SampleFile*>& files) {
  for (const SampleFile* file : files) {
    bool found = false;
    for (const auto& field : file->fields()) found = found || field.name == name;
    if (found) continue;
    return absl::StrCat(
        "column ", name, " (", known.field.type, ") is in ", known.typed_by->path(),
        ", but missing in ", file->path(), " (", files.size() - known.files, " of ", files.size(),
        " files lack it), so it cannot be read; write the files with one schema, or "
        "train on those that share one");
  }
  return "";
}

}  // namespace

absl::StatusOr<MergedSchema> MergeSchemas(const std::vector<const SampleFile*>& files) {
  std::map<std::string, Merged> merged;
  std::vector<std::string> order;
  for (const SampleFile* file : files) {
    for (const auto& field : file->fields()) {
      Merged& known = merged[field.name];
      if (known.files == 0) order.push_back(field.name);
      absl::Status status = Add(*file, field, &known);
      if (!status.ok()) return status;
    }
  }
  MergedSchema out;
  for (const std::string& name : order) {
    Merged& known = merged[name];
    if (known.files == static_cast<int>(files.size())) {
      out.columns.push_back({name, known.field.type, known.field.in_list});
    } else {
      known.note = Lacking(name, known, files);
    }
    if (!known.note.empty()) out.notes.push_back({name, known.note});
  }
  return out;
}

}  // namespace starling
