// The statistics of a Parquet row group as bounds of a column's values.
#pragma once

#include "sample_io/sample_file.h"

namespace parquet {
class FileMetaData;
}

namespace starling {

// Nothing is known of what the footer does not tell, tells of a list, or tells
// in a form whose order is not the column's. A null `field` is no column. May throw.
ValueBounds ParquetBounds(const parquet::FileMetaData& footer, int row_group,
                          const SampleFile::Field* field);

}  // namespace starling
