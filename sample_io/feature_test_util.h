// For tests of features: columns by hand, features as proto text, and what one
// of them becomes in a Batch.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "sample_io/feature_compiler.h"

namespace starling {

template <typename T>
std::vector<T>& ValuesIn(Column* column) {
  if constexpr (std::is_same_v<T, int64_t>) {
    return column->ints;
  } else if constexpr (std::is_same_v<T, double>) {
    column->type = ColumnType::kDouble;
    return column->doubles;
  } else {
    column->type = ColumnType::kString;
    return column->strings;
  }
}
template <typename T>
Column Flat(const std::string& name, std::vector<T> values, std::vector<uint8_t> valid) {
  Column column;
  column.name = name;
  column.rows = static_cast<int64_t>(values.size());
  column.valid = std::move(valid);
  ValuesIn<T>(&column) = std::move(values);
  return column;
}
inline Column Ints(const std::string& name, std::vector<int64_t> values,
                   std::vector<uint8_t> valid = {}) {
  return Flat<int64_t>(name, std::move(values), std::move(valid));
}
inline Column Doubles(const std::string& name, std::vector<double> values,
                      std::vector<uint8_t> valid = {}) {
  return Flat<double>(name, std::move(values), std::move(valid));
}
inline Column Strings(const std::string& name, std::vector<absl::string_view> values,
                      std::vector<uint8_t> valid = {}) {
  return Flat<absl::string_view>(name, std::move(values), std::move(valid));
}
template <typename T>
Column Lists(const std::string& name, const std::vector<std::vector<T>>& lists) {
  Column column;
  column.name = name;
  column.is_list = true;
  column.rows = static_cast<int64_t>(lists.size());
  column.list_offsets = {0};
  std::vector<T>& values = ValuesIn<T>(&column);
  for (const auto& list : lists) {
    values.insert(values.end(), list.begin(), list.end());
    column.list_offsets.push_back(static_cast<int32_t>(values.size()));
  }
  return column;
}
inline Column Map(Column keys, Column items) {
  keys.items = std::make_shared<Column>(std::move(items));
  return keys;
}

inline FeatureSet Features(const std::string& text) {
  FeatureSet set;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &set)) << text;
  return set;
}
// One id feature `f` in table 0 with these fields.
inline FeatureSet OneId(const std::string& fields) {
  return Features("tables: 1 ids { name: 'f' table: 0 " + fields + " }");
}
inline FeatureSet OneRaw(const std::string& fields) {
  return Features("raws { name: 'f' " + fields + "}");
}

struct Result {
  absl::Status status;
  Batch batch;
  std::vector<BadRow> bad;
};
inline Result Compile(const FeatureSet& set, std::vector<Column> columns,
                      std::vector<int64_t> rows = {}) {
  Result result;
  auto compiler = FeatureCompiler::Create(set);
  EXPECT_TRUE(compiler.ok()) << compiler.status();
  ColumnBatch batch;
  batch.rows = columns[0].rows;
  batch.columns = std::move(columns);
  result.status = (*compiler)->Compile(batch, rows, true, &result.batch, &result.bad);
  return result;
}
inline std::string WhyBad(const Result& r, int64_t row) {
  for (const BadRow& bad : r.bad) {
    if (bad.row == row) return bad.column + ": " + bad.reason;
  }
  return "";
}

inline uint64_t Id(int64_t value) { return HashInt64(value, VocabularySeed("f")); }
inline uint64_t Id(const char* value) { return HashBytes(value, VocabularySeed("f")); }

inline std::vector<uint64_t> IdsAt(const Result& r, int entry) {
  const TableIds& table = r.batch.tables[0];
  const Slot& s = table.slots[0];
  std::vector<uint64_t> ids;
  for (uint32_t i = s.offsets[entry]; i < s.offsets[entry + 1]; ++i) {
    ids.push_back(table.ids[s.index[i]]);
  }
  return ids;
}
inline const std::vector<float>& Weights(const Result& r) {
  return r.batch.tables[0].slots[0].weights;
}

}  // namespace starling
