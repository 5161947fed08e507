#include "sample_io/generator_columns.h"

#include <arrow/api.h>

#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"

namespace starling {
namespace {

std::shared_ptr<arrow::DataType> TimeType() { return arrow::timestamp(arrow::TimeUnit::MILLI); }
void AddNumbers(int first, int end, arrow::FieldVector* fields) {
  for (int i = first; i < end; ++i) {
    fields->push_back(arrow::field(absl::StrCat("I", i + 1), arrow::float64()));
  }
}
void AddIds(int first, int end, arrow::FieldVector* fields) {
  for (int i = first; i < end; ++i) {
    fields->push_back(arrow::field(absl::StrCat("C", i + 1), arrow::int64()));
  }
}

std::shared_ptr<arrow::Field> Conversion() {
  return arrow::field("conversion", arrow::int32(), false);
}
void AddTarget(arrow::FieldVector* fields) {
  for (const char* name : {"item", "category"}) {
    fields->push_back(arrow::field(name, arrow::int64(), false));
  }
}
void AddSequence(arrow::FieldVector* fields) {
  for (const char* name : {"seen_item", "seen_category"}) {
    fields->push_back(arrow::field(name, arrow::list(arrow::int64()), false));
  }
}

std::shared_ptr<arrow::Schema> FlatSchema(const GeneratorOptions& options) {
  arrow::FieldVector fields = {arrow::field("click", arrow::int32(), false),
                               arrow::field("ts", TimeType(), false),
                               arrow::field("user", arrow::int64(), false)};
  if (options.impressions > 1) {
    fields.push_back(arrow::field("request", arrow::int64(), false));
  }
  AddNumbers(0, PlantedModel::kNumbers, &fields);
  AddIds(0, PlantedModel::kIds, &fields);
  if (options.conversions) fields.push_back(Conversion());
  if (options.sequence > 0) AddSequence(&fields);
  if (options.sequence > 0) AddTarget(&fields);
  return arrow::schema(fields);
}

std::shared_ptr<arrow::Schema> NestedSchema(const GeneratorOptions& options) {
  arrow::FieldVector user = {arrow::field("id", arrow::int64(), false)};
  AddNumbers(0, PlantedModel::kUserNumbers, &user);
  AddIds(0, PlantedModel::kUserIds, &user);
  if (options.sequence > 0) AddSequence(&user);
  arrow::FieldVector impression = {arrow::field("click", arrow::int32(), false),
                                   arrow::field("ts", TimeType(), false)};
  AddNumbers(PlantedModel::kUserNumbers, PlantedModel::kNumbers, &impression);
  AddIds(PlantedModel::kUserIds, PlantedModel::kIds, &impression);
  if (options.conversions) impression.push_back(Conversion());
  if (options.sequence > 0) AddTarget(&impression);
  return arrow::schema({arrow::field("request", arrow::int64(), false),
                        arrow::field("user", arrow::struct_(user), false),
                        arrow::field("impressions", arrow::list(arrow::struct_(impression)))});
}

std::shared_ptr<arrow::Schema> IndustrialSchema() {
  arrow::FieldVector fields = {arrow::field("click", arrow::int32(), false),
                               arrow::field("ts", TimeType(), false),
                               arrow::field("user", arrow::int64(), false)};
  for (int s = 0; s < PlantedSlots::kSingles; ++s) {
    fields.push_back(arrow::field(absl::StrCat("S", s + 1), arrow::int64(), false));
  }
  for (int s = 0; s < PlantedSlots::kLists; ++s) {
    auto item = arrow::field("element", arrow::int64(), false);
    fields.push_back(arrow::field(absl::StrCat("L", s + 1), arrow::list(item), false));
  }
  return arrow::schema(fields);
}

class ColumnsBuilder : public GroupBuilder {
 public:
  ColumnsBuilder(std::unique_ptr<arrow::RecordBatchBuilder> columns,
                 const GeneratorOptions& options)
      : columns_(std::move(columns)),
        requests_(options.impressions > 1),
        conversions_(options.conversions),
        sequence_(options.sequence > 0) {}
  std::shared_ptr<arrow::Schema> schema() const override { return columns_->schema(); }
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Finish() override { return columns_->Flush(); }

 protected:
  const std::unique_ptr<arrow::RecordBatchBuilder> columns_;
  const bool requests_, conversions_, sequence_;
};

using Builder = arrow::ArrayBuilder;

arrow::Status AppendInt(int64_t value, Builder* builder) {
  return static_cast<arrow::Int64Builder*>(builder)->Append(value);
}
arrow::Status AppendBool(bool value, Builder* builder) {
  return static_cast<arrow::Int32Builder*>(builder)->Append(value);
}
arrow::Status AppendClickAndTime(const LoggedRow& row, Builder* click, Builder* ts) {
  ARROW_RETURN_NOT_OK(AppendBool(row.row.click, click));
  return static_cast<arrow::TimestampBuilder*>(ts)->Append(row.seconds * 1000);
}

// What a flat row of any shape begins with.
arrow::Status AppendHead(const LoggedRow& row, const std::function<Builder*()>& next) {
  Builder* click = next();
  ARROW_RETURN_NOT_OK(AppendClickAndTime(row, click, next()));
  return AppendInt(row.user, next());
}

// Numbers [numbers, numbers_end) and ids [ids, ids_end) go to the builders from `next` on.
arrow::Status AppendFeatures(const PlantedModel::Row& row, int numbers, int numbers_end, int ids,
                             int ids_end, const std::function<Builder*()>& next) {
  for (int i = numbers; i < numbers_end; ++i) {
    auto* builder = static_cast<arrow::DoubleBuilder*>(next());
    ARROW_RETURN_NOT_OK(row.number_null[i] ? builder->AppendNull()
                                           : builder->Append(row.numbers[i]));
  }
  for (int i = ids; i < ids_end; ++i) {
    auto* builder = static_cast<arrow::Int64Builder*>(next());
    ARROW_RETURN_NOT_OK(row.ids[i] < 0 ? builder->AppendNull() : builder->Append(row.ids[i]));
  }
  return arrow::Status::OK();
}

arrow::Status AppendTarget(const PlantedSequence::Row& row, const std::function<Builder*()>& next) {
  ARROW_RETURN_NOT_OK(AppendInt(row.item, next()));
  return AppendInt(PlantedSequence::CategoryOf(row.item), next());
}
arrow::Status AppendSequence(const PlantedSequence::Row& row,
                             const std::function<Builder*()>& next) {
  auto* items = static_cast<arrow::ListBuilder*>(next());
  auto* categories = static_cast<arrow::ListBuilder*>(next());
  ARROW_RETURN_NOT_OK(items->Append());
  ARROW_RETURN_NOT_OK(categories->Append());
  for (int64_t item : row.seen_items) {
    ARROW_RETURN_NOT_OK(AppendInt(item, items->value_builder()));
    ARROW_RETURN_NOT_OK(AppendInt(PlantedSequence::CategoryOf(item), categories->value_builder()));
  }
  return arrow::Status::OK();
}

class FlatBuilder : public ColumnsBuilder {
 public:
  using ColumnsBuilder::ColumnsBuilder;

  arrow::Status Append(const LoggedRow& row) override {
    int at = 0;
    auto next = [&] { return columns_->GetField(at++); };
    ARROW_RETURN_NOT_OK(AppendHead(row, next));
    if (requests_) ARROW_RETURN_NOT_OK(AppendInt(row.request, next()));
    ARROW_RETURN_NOT_OK(
        AppendFeatures(row.row, 0, PlantedModel::kNumbers, 0, PlantedModel::kIds, next));
    if (conversions_) ARROW_RETURN_NOT_OK(AppendBool(row.conversion, next()));
    if (!sequence_) return arrow::Status::OK();
    ARROW_RETURN_NOT_OK(AppendSequence(row.sequence, next));
    return AppendTarget(row.sequence, next);
  }
};

class NestedBuilder : public ColumnsBuilder {
 public:
  using ColumnsBuilder::ColumnsBuilder;

  arrow::Status Append(const LoggedRow& row) override {
    auto* user = columns_->GetFieldAs<arrow::StructBuilder>(1);
    auto* list = columns_->GetFieldAs<arrow::ListBuilder>(2);
    auto* impression = static_cast<arrow::StructBuilder*>(list->value_builder());
    if (row.first) {
      ARROW_RETURN_NOT_OK(AppendInt(row.request, columns_->GetField(0)));
      ARROW_RETURN_NOT_OK(user->Append());
      ARROW_RETURN_NOT_OK(AppendInt(row.user, user->field_builder(0)));
      int at = 1;
      ARROW_RETURN_NOT_OK(AppendFeatures(row.row, 0, PlantedModel::kUserNumbers, 0,
                                         PlantedModel::kUserIds,
                                         [&] { return user->field_builder(at++); }));
      if (sequence_) {
        ARROW_RETURN_NOT_OK(
            AppendSequence(row.sequence, [&] { return user->field_builder(at++); }));
      }
      ARROW_RETURN_NOT_OK(list->Append());
    }
    ARROW_RETURN_NOT_OK(impression->Append());
    ARROW_RETURN_NOT_OK(
        AppendClickAndTime(row, impression->field_builder(0), impression->field_builder(1)));
    int at = 2;
    auto next = [&] { return impression->field_builder(at++); };
    ARROW_RETURN_NOT_OK(AppendFeatures(row.row, PlantedModel::kUserNumbers, PlantedModel::kNumbers,
                                       PlantedModel::kUserIds, PlantedModel::kIds, next));
    if (conversions_) ARROW_RETURN_NOT_OK(AppendBool(row.conversion, next()));
    return sequence_ ? AppendTarget(row.sequence, next) : arrow::Status::OK();
  }
};

class IndustrialBuilder : public ColumnsBuilder {
 public:
  using ColumnsBuilder::ColumnsBuilder;

  arrow::Status Append(const LoggedRow& row) override {
    int at = 0;
    auto next = [&] { return columns_->GetField(at++); };
    ARROW_RETURN_NOT_OK(AppendHead(row, next));
    for (int64_t id : row.slots.singles) ARROW_RETURN_NOT_OK(AppendInt(id, next()));
    for (const std::vector<int64_t>& ids : row.slots.lists) {
      auto* list = static_cast<arrow::ListBuilder*>(next());
      ARROW_RETURN_NOT_OK(list->Append());
      auto* values = static_cast<arrow::Int64Builder*>(list->value_builder());
      ARROW_RETURN_NOT_OK(values->AppendValues(ids));
    }
    return arrow::Status::OK();
  }
};

template <class T>
arrow::Result<std::unique_ptr<GroupBuilder>> MakeAs(const GeneratorOptions& options,
                                                    const std::shared_ptr<arrow::Schema>& schema) {
  ARROW_ASSIGN_OR_RAISE(auto columns,
                        arrow::RecordBatchBuilder::Make(schema, arrow::default_memory_pool()));
  return std::make_unique<T>(std::move(columns), options);
}

}  // namespace

arrow::Result<std::unique_ptr<GroupBuilder>> GroupBuilder::Make(const GeneratorOptions& options,
                                                                bool nested) {
  if (options.shape == DataShape::kIndustrial) {
    return MakeAs<IndustrialBuilder>(options, IndustrialSchema());
  }
  if (nested) return MakeAs<NestedBuilder>(options, NestedSchema(options));
  return MakeAs<FlatBuilder>(options, FlatSchema(options));
}

}  // namespace starling
