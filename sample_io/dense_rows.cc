#include "sample_io/dense_rows.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "sample_io/derive.h"

namespace starling {
namespace {

// Nulls are chosen after the fact: their value may be anything, but costs less
// than a branch that a processor guesses wrong.
template <bool kNulls, typename T, typename Scale>
void FillScalars(const T* values, const uint8_t* valid, std::span<const int64_t> entries,
                 const Scale& scale, float missing, int64_t stride, float* dense, uint8_t* good) {
  for (size_t i = 0; i < entries.size(); ++i, dense += stride) {
    const int64_t entry = entries[i];
    const bool null = kNulls && !valid[entry];
    const float scaled = scale(static_cast<double>(values[entry]));
    good[i] &= std::isfinite(scaled) | null;
    *dense = null ? missing : scaled;
  }
}

template <typename T, typename Scale>
void FillScalars(const T* values, const Column& column, std::span<const int64_t> entries,
                 const Scale& scale, float missing, int64_t stride, float* dense, uint8_t* good) {
  if (column.valid.empty()) {
    FillScalars<false>(values, nullptr, entries, scale, missing, stride, dense, good);
  } else {
    FillScalars<true>(values, column.valid.data(), entries, scale, missing, stride, dense, good);
  }
}

template <typename T>
void FillScalars(const T* values, const Column& column, std::span<const int64_t> entries,
                 const RawPlan& plan, int64_t stride, float* dense, uint8_t* good) {
  if (plan.scale.is_log()) {
    auto log = [scale = plan.scale](double x) { return scale.Log(x); };
    FillScalars(values, column, entries, log, plan.missing, stride, dense, good);
  } else {
    FillScalars(values, column, entries, plan.scale, plan.missing, stride, dense, good);
  }
}

}  // namespace

void FillNumbers(const Column& column, std::span<const int64_t> entries, const RawPlan& plan,
                 int64_t stride, float* dense, uint8_t* good) {
  // A column of nulls alone may have another form than the plan's, and no values.
  const bool scalars = !column.is_list && plan.width == 1;
  const size_t rows = static_cast<size_t>(column.rows);
  if (scalars && column.ints.size() == rows) {
    return FillScalars(column.ints.data(), column, entries, plan, stride, dense, good);
  }
  if (scalars && column.doubles.size() == rows) {
    return FillScalars(column.doubles.data(), column, entries, plan, stride, dense, good);
  }
  for (size_t i = 0; i < entries.size(); ++i, dense += stride) {
    const ValueRange values = ValuesOf(column, entries[i]);
    if (column.IsNull(entries[i])) {
      std::fill_n(dense, plan.width, plan.missing);
    } else if (values.size() != plan.width) {
      good[i] = 0;
    } else {
      for (int64_t v = 0; v < plan.width; ++v) {
        dense[v] = plan.scale(NumberAt(column, values.begin + v));
        good[i] &= std::isfinite(dense[v]);
      }
    }
  }
}

std::string WhyNotNumbers(const Column& column, int64_t entry, const RawPlan& plan) {
  if (column.IsNull(entry)) return "";
  const ValueRange values = ValuesOf(column, entry);
  if (values.size() != plan.width) {
    return absl::StrCat("a list of ", values.size(), " numbers, not of ", plan.width);
  }
  for (int64_t i = values.begin; i < values.end; ++i) {
    const double value = NumberAt(column, i);
    if (std::isfinite(plan.scale(value))) continue;
    return absl::StrCat("the value is ", value, ", not a finite 32-bit number");
  }
  return "";
}

}  // namespace starling
