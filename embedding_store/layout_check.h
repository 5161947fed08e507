// Whether rows of a file fit a table.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "embedding_store/row_file.h"
#include "embedding_store/row_layout.h"

namespace starling {

// FailedPrecondition, naming what differs, unless rows of the file at `path`
// fit the table: its name, its segments, their dims and optimisers. Rates,
// budgets and the dtype may differ.
absl::Status CheckLayout(const std::string& path, const RowFileHeader& header,
                         const TableSpec& spec, const RowLayout& layout);

}  // namespace starling
