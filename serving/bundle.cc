// Finding and loading bundles.
#include "serving/bundle.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "base/file_set.h"
#include "base/status.h"
#include "embedding_store/multi_hash.h"
#include "serving/read_only_table.h"

namespace starling {
namespace {

absl::Status ReadJson(const std::string& dir, const std::vector<FileSetEntry>& files,
                      const std::string& name, google::protobuf::Message* message) {
  ASSIGN_OR_RETURN(std::string json, ReadSetFile(dir, files, name));
  if (auto s = google::protobuf::util::JsonStringToMessage(json, message); !s.ok()) {
    return absl::DataLossError(absl::StrCat(JoinPath(dir, name), ": ", s.ToString()));
  }
  return absl::OkStatus();
}

int WidthOf(const TableSpec& spec) {
  int width = 0;
  for (const SegmentSpec& segment : spec.segments()) width += segment.dim();
  return width;
}

// The specs are stored apart: they must speak of the same tables.
absl::Status CheckSpecs(const std::string& dir, const BundleSpec& spec) {
  int tables = spec.tables.tables_size();
  if (spec.info.tables_size() != tables || spec.features.tables() != tables ||
      spec.graph.table_width_size() != tables) {
    return absl::DataLossError(absl::StrCat(dir, ": the number of tables differs: manifest ",
                                            spec.info.tables_size(), ", features.json ",
                                            spec.features.tables(), ", tables.json ", tables,
                                            ", graph.json ", spec.graph.table_width_size()));
  }
  for (int t = 0; t < tables; ++t) {
    if (WidthOf(spec.tables.tables(t)) != spec.graph.table_width(t)) {
      return absl::DataLossError(absl::StrCat(dir, ": table ", t, " has rows of ",
                                              WidthOf(spec.tables.tables(t)), " in tables.json, ",
                                              spec.graph.table_width(t), " in graph.json"));
    }
  }
  return absl::OkStatus();
}

class LoadedBundle : public Bundle {
 public:
  absl::Status LoadFrom(const std::string& dir) {
    ASSIGN_OR_RETURN(auto files, OpenFileSet(dir, "bundle", &spec_.info));
    RETURN_IF_ERROR(VerifyFileSet(dir, files));
    RETURN_IF_ERROR(ReadJson(dir, files, "features.json", &spec_.features));
    RETURN_IF_ERROR(ReadJson(dir, files, "tables.json", &spec_.tables));
    RETURN_IF_ERROR(ReadJson(dir, files, "graph.json", &spec_.graph));
    RETURN_IF_ERROR(CheckSpecs(dir, spec_));
    ASSIGN_OR_RETURN(std::string dense, ReadSetFile(dir, files, "dense.bin"));
    if (dense.size() % sizeof(float) != 0) {
      return absl::DataLossError(
          absl::StrCat(JoinPath(dir, "dense.bin"), ": not a whole number of floats"));
    }
    dense_.resize(dense.size() / sizeof(float));
    if (!dense.empty()) std::memcpy(dense_.data(), dense.data(), dense.size());
    for (int t = 0; t < spec_.tables.tables_size(); ++t) {
      const std::string& name = spec_.info.tables(t);
      if (std::none_of(files.begin(), files.end(), [&](auto& f) { return f.name == name; })) {
        return absl::DataLossError(
            absl::StrCat(dir, ": the manifest lists no file \"", name, "\""));
      }
      ASSIGN_OR_RETURN(auto table,
                       ReadOnlyTable::Load(JoinPath(dir, name), WidthOf(spec_.tables.tables(t))));
      tables_.push_back(std::move(table));
      const TableOptions& options = spec_.tables.tables(t).options();
      if (!options.has_multi_hash()) continue;
      if (absl::Status s = CheckMultiHash(options.multi_hash()); !s.ok()) {
        return absl::DataLossError(
            absl::StrCat(JoinPath(dir, "tables.json"), ": table ", t, ": ", s.message()));
      }
      hashed_[t] = std::make_unique<MultiHashSource>(options.multi_hash(), tables_[t].get());
    }
    return absl::OkStatus();
  }

  const BundleSpec& spec() const override { return spec_; }
  std::span<const float> dense() const override { return dense_; }
  const RowSource& table(int t) const override {
    if (auto it = hashed_.find(t); it != hashed_.end()) return *it->second;
    return *tables_[t];
  }
  int64_t rows(int t) const override { return tables_[t]->rows(); }

 private:
  BundleSpec spec_;
  std::vector<float> dense_;
  std::vector<std::unique_ptr<ReadOnlyTable>> tables_;
  std::map<int, std::unique_ptr<MultiHashSource>> hashed_;  // Of tables whose rows are parts.
};

}  // namespace

absl::StatusOr<std::unique_ptr<Bundle>> Bundle::Load(const std::string& dir) {
  auto bundle = std::make_unique<LoadedBundle>();
  absl::Status status = bundle->LoadFrom(dir);
  if (absl::IsNotFound(status)) {
    return absl::NotFoundError(absl::StrCat(dir, ": is no bundle: ", status.message()));
  }
  RETURN_IF_ERROR(status);
  return bundle;
}

absl::StatusOr<std::vector<uint64_t>> ListBundleVersions(const std::string& root) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, ListFileSets(root));
  std::vector<uint64_t> versions;
  for (absl::string_view name : names) {
    uint64_t version;
    if (absl::StartsWith(name, "v") && absl::SimpleAtoi(name.substr(1), &version) &&
        BundleVersionDir(root, version) == JoinPath(root, name)) {
      versions.push_back(version);
    }
  }
  return versions;
}

absl::StatusOr<std::string> FindBundle(const std::string& root) {
  if (!PathExists(root)) return absl::NotFoundError(absl::StrCat(root, ": no such directory"));
  if (PathExists(JoinPath(root, "MANIFEST"))) return root;
  ASSIGN_OR_RETURN(std::vector<uint64_t> versions, ListBundleVersions(root));
  if (versions.empty()) {
    return absl::NotFoundError(
        absl::StrCat(root, ": neither a bundle nor a directory of versions of one"));
  }
  return BundleVersionDir(root, versions.back());
}

}  // namespace starling
