// The Open Inference Protocol (KServe v2) as JSON: a request becomes columns,
// scores become a response. No sockets here.
//
// Inputs. A tensor is a feature's column; unknown names are errors, features
// that are left out are missing in every row. `shape` is [n]: `data` has n
// elements, each a value, null (missing), or an array of values (a row of a list
// feature). Or it is [n, k]: `data` is flat, or n arrays of k (any length if k
// is -1); k = 1 is a plain column, any other k a list. A null inside a list is
// dropped, as the Parquet reader does.
//
// Types. BOOL, INT8..INT64 and UINT8..UINT64 are integers and must fit their
// type (a UINT64 beyond int64 keeps its bits, as in Parquet). FP64 is taken as
// it is; FP32 is rounded to float first, so that it equals a float column.
// BYTES are JSON strings.
//
// Output. Each float is printed with as many digits as it takes to parse back
// to the same float.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sample_io/columns.h"
#include "sample_io/data.pb.h"
#include "serving/bundle.h"

namespace starling {

struct InferRequest {
  std::string id;                    // As JSON text, echoed; "" if there is none.
  std::string parameters;            // Likewise.
  ColumnBatch columns;               // Every feature is there.
  std::vector<std::string> outputs;  // Asked for, in order; empty: all.
};

// InvalidArgument, naming input and element, for all that is wrong with it.
// `outputs` are the model's.
absl::StatusOr<InferRequest> ParseInferRequest(absl::string_view body, const FeatureSet& features,
                                               const std::vector<std::string>& outputs,
                                               int64_t rows_max);

// Adds the features that are not there, missing in every row.
void AddMissingColumns(const FeatureSet& features, ColumnBatch* columns);

// One tensor an output that was asked for. `scores` is (rows, outputs).
std::string InferResponseJson(const InferRequest& request, const BundleInfo& model,
                              const std::vector<std::string>& outputs,
                              std::span<const float> scores);
// Ids are listed as INT64, though BYTES are taken as well: a bundle does not
// record which of the two its log held. Raw features are listed as FP64. Of a
// derived feature the columns it reads are listed; a map is BYTES, as text.
std::string ModelMetadataJson(const BundleSpec& spec, const std::vector<std::string>& outputs);
std::string ErrorJson(absl::string_view message);

}  // namespace starling
