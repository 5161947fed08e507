// The columns that Generate writes: the schema of a shape, and what puts rows into it.
#pragma once

#include <memory>

#include "sample_io/generator.h"
#include "sample_io/planted_model.h"
#include "sample_io/planted_sequence.h"
#include "sample_io/planted_slots.h"

namespace arrow {
class RecordBatch;
class Schema;
class Status;
template <class T>
class Result;
}  // namespace arrow

namespace starling {

// One row of the planted world, and what the log adds to it.
struct LoggedRow {
  PlantedModel::Row row;    // Of an industrial row the click and its probability alone.
  PlantedSlots::Row slots;  // Of an industrial row.
  PlantedSequence::Row sequence;
  bool conversion = false;
  int64_t user = 0;
  int64_t seconds = 0;
  int64_t request = 0;
  bool first = true;  // Of its request.
};

// Columns of one row group, in the order of the schema.
class GroupBuilder {
 public:
  // `nested`: a request a row.
  static arrow::Result<std::unique_ptr<GroupBuilder>> Make(const GeneratorOptions& options,
                                                           bool nested);
  virtual ~GroupBuilder() = default;
  virtual std::shared_ptr<arrow::Schema> schema() const = 0;
  virtual arrow::Status Append(const LoggedRow& row) = 0;
  // The rows since the last call.
  virtual arrow::Result<std::shared_ptr<arrow::RecordBatch>> Finish() = 0;
};

}  // namespace starling
