// PathKeys: the Hive keys of a set's paths (`ds=20260801/`) as columns. A key is
// a column of integers if all its values are, of strings otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sample_io/columns.h"
#include "sample_io/sample_file.h"

namespace starling {

class PathKeys {
 public:
  // Keys that are one of `stored`, columns of the files, are left to these.
  // FailedPrecondition, naming both, if a path lacks a key of the first.
  static absl::StatusOr<PathKeys> Create(const std::vector<std::string>& paths,
                                         const std::vector<SampleFile::Field>& stored);

  const std::map<std::string, bool>& is_int() const { return is_int_; }  // By name.
  bool contains(const std::string& name) const { return is_int_.contains(name); }
  // The key of paths[path], repeated. REQUIRES: contains(name).
  Column ColumnOf(size_t path, const std::string& name, int64_t rows) const;

 private:
  std::map<std::string, bool> is_int_;
  std::vector<std::map<std::string, std::string>> keys_;  // By path.
};

}  // namespace starling
