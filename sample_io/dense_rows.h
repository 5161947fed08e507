// Raw features → Batch::dense, a column at a time: what is the same for all
// rows of a column is decided once.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "sample_io/columns.h"
#include "sample_io/raw_scale.h"

namespace starling {

// How one raw feature becomes numbers.
struct RawPlan {
  RawScale scale;
  float missing = 0;  // Scaled.
  int width = 1;
  bool is_list = false;
};

// Writes the numbers of row entries[i] of `column` to dense[i * stride] and the
// plan.width - 1 places behind it, for all i. Clears good[i] where the row
// cannot be used; it may hold anything then.
void FillNumbers(const Column& column, std::span<const int64_t> entries, const RawPlan& plan,
                 int64_t stride, float* dense, uint8_t* good);

// What is wrong with one row, for a person; "" if nothing is.
std::string WhyNotNumbers(const Column& column, int64_t entry, const RawPlan& plan);

// Copies to row i of `dense` the numbers of its request, all `width` of them.
void CopyToRows(std::span<const float> of_requests, std::span<const int64_t> request_of_row,
                int64_t width, float* dense);

}  // namespace starling
