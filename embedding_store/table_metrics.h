// A table's figures as Prometheus metrics, labelled with its name.
#pragma once

#include <string>

#include "embedding_store/embedding_table.h"

namespace starling {

void ExportTableMetrics(const std::string& table, const TableStats& stats);

}  // namespace starling
