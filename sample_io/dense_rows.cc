#include "sample_io/dense_rows.h"

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "base/optimizer.h"
#include "sample_io/derive.h"
#include "sample_io/slot_values.h"

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

// Of a number that is no small count: it is left to RawScale.
constexpr float kOther = std::numeric_limits<float>::quiet_NaN();
constexpr double kLargestCount = kSmallLogs - 1;

// The logarithms of n numbers that are small counts, kOther for the rest. True if there are none.
bool CountLogs(const double* values, size_t n, const float* logs, float* out) {
  bool all = true;
  for (size_t i = 0; i < n; ++i) {
    const double x = std::fabs(values[i]);
    const int whole = static_cast<int>(x < kLargestCount ? x : kLargestCount);
    const float log = std::copysign(logs[whole], static_cast<float>(values[i]));
    const bool is = static_cast<double>(whole) == x;
    out[i] = is ? log : kOther;
    all &= is;
  }
  return all;
}

// The same four at a time.
[[gnu::target("avx2")]] bool CountLogsAvx2(const double* values, size_t n, const float* logs,
                                           float* out) {
  const __m256d sign = _mm256_set1_pd(-0.0), largest = _mm256_set1_pd(kLargestCount);
  const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
  __m256d all = _mm256_castsi256_pd(_mm256_set1_epi64x(-1));
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const __m256d given = _mm256_loadu_pd(values + i), x = _mm256_andnot_pd(sign, given);
    const __m128i whole = _mm256_cvttpd_epi32(_mm256_min_pd(x, largest));  // NaN: the largest.
    const __m128 log = _mm_or_ps(_mm_i32gather_ps(logs, whole, 4),
                                 _mm_and_ps(_mm_set1_ps(-0.0f), _mm256_cvtpd_ps(given)));
    const __m256d equal = _mm256_cmp_pd(_mm256_cvtepi32_pd(whole), x, _CMP_EQ_OQ);
    all = _mm256_and_pd(all, equal);
    const __m256 narrow = _mm256_permutevar8x32_ps(_mm256_castpd_ps(equal), even);
    _mm_storeu_ps(out + i, _mm_blendv_ps(_mm_set1_ps(kOther), log, _mm256_castps256_ps128(narrow)));
  }
  return CountLogs(values + i, n - i, logs, out + i) && _mm256_movemask_pd(all) == 15;
}

// As FillScalars with plan.scale.Log, of consecutive rows that begin at `values` and `valid`.
void FillLogs(const double* values, const uint8_t* valid, size_t n, const RawPlan& plan,
              int64_t stride, float* dense, uint8_t* good) {
  static const bool avx2 = BestInstructionSet() == InstructionSet::kAvx2;
  constexpr size_t kTile = 256;
  float logs[kTile];
  for (size_t begin = 0; begin < n; begin += kTile) {
    const size_t end = std::min(n, begin + kTile);
    const bool all = avx2 ? CountLogsAvx2(values + begin, end - begin, SmallFloatLogs(), logs)
                          : CountLogs(values + begin, end - begin, SmallFloatLogs(), logs);
    for (size_t i = begin; !all && i < end; ++i) {
      if (logs[i - begin] == logs[i - begin]) continue;
      logs[i - begin] = plan.scale.Log(values[i]);
      good[i] &= std::isfinite(logs[i - begin]) | (valid != nullptr && !valid[i]);
    }
    for (size_t i = begin; i < end; ++i, dense += stride) {
      *dense = valid != nullptr && !valid[i] ? plan.missing : logs[i - begin];
    }
  }
}

template <typename T>
void FillScalars(const T* values, const Column& column, std::span<const int64_t> entries,
                 const RawPlan& plan, int64_t stride, float* dense, uint8_t* good) {
  if (plan.scale.is_log()) {
    if constexpr (std::is_same_v<T, double>) {
      if (!entries.empty() && IsRun(entries)) {
        const uint8_t* valid = column.valid.empty() ? nullptr : &column.valid[entries[0]];
        return FillLogs(values + entries[0], valid, entries.size(), plan, stride, dense, good);
      }
    }
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

void CopyToRows(std::span<const float> of_requests, std::span<const int64_t> request_of_row,
                int64_t width, float* dense) {
  // Blocks of a known size are copied without a call; the last may overlap the one before.
  constexpr int64_t kBlock = 4;
  for (size_t i = 0; i < request_of_row.size(); ++i, dense += width) {
    const float* from = of_requests.data() + request_of_row[i] * width;
    if (width < kBlock) {
      std::copy_n(from, width, dense);
      continue;
    }
    for (int64_t at = 0; at + kBlock <= width; at += kBlock) {
      std::memcpy(dense + at, from + at, kBlock * sizeof(float));
    }
    std::memcpy(dense + width - kBlock, from + width - kBlock, kBlock * sizeof(float));
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
