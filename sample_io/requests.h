// Requests: rows that share a user, as one entry for the user's columns. Two
// ways to write them down lead to the same ColumnBatch:
//
//   nested   a row of the file is a request: the user's columns beside a list
//            of structs, one struct an impression, whose members are named
//            list.member. Rows of the batch are impressions.
//   flat     a row of the file is an impression; a key column tells requests
//            apart, and rows of one request stand together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "sample_io/batch.h"
#include "sample_io/columns.h"
#include "sample_io/data.pb.h"

namespace starling {

// Brings a batch, as it was read, into the form that `features` ask for.
//   Nested: columns with outer_offsets become the rows and the others those of
//   requests. FailedPrecondition if they are members of different lists.
//   Flat, with features.request(): consecutive rows of the same key, a column
//   of integers or strings, are a request; a null is one of its own. Columns
//   of features.user() keep the value of a request's first row.
//   FailedPrecondition, naming column and row, if another row of the request
//   has a different value: it is no column of the user then.
//   Flat otherwise, or without the key's column: nothing.
absl::Status FormRequests(const FeatureSet& features, ColumnBatch* batch);

// Sets `requests` to those of `rows`; to none in the flat form.
void RequestsOf(const ColumnBatch& columns, std::span<const int64_t> rows,
                std::vector<int64_t>* requests);

// The requests of the rows that a Batch keeps. All empty in the flat form.
struct KeptRequests {
  std::vector<int64_t> entries;  // In the ColumnBatch.
  std::vector<uint32_t> rows;    // By entry: rows kept,
  std::vector<int64_t> times;    // and the latest event time of these; empty without one.

  // `kept` are rows of `columns`; event times are in the batch already. Sets
  // the batch's requests and request_of_row.
  void Fill(const ColumnBatch& columns, std::span<const int64_t> kept, Batch* batch);
};

// Repeats the columns of requests for each of their rows.
void FlattenRequests(ColumnBatch* batch);

}  // namespace starling
