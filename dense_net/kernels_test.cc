// The instruction sets' loops against each other and against plain sums.
#include "dense_net/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "dense_net/device.h"

namespace starling {

namespace {

constexpr uint32_t kHalf = 0x7FFFFFFFu;

const Kernels& Kernel() { return CpuDevice().kernels(); }

std::vector<float> Mask(const Kernels& kernel, int rows, int cols, uint64_t key, int64_t first,
                        uint32_t keep) {
  std::vector<float> ones(rows * cols, 1), out(rows * cols);
  kernel.dropout(rows, cols, key, first, keep, 1, ones.data(), out.data(), false);
  return out;
}

TEST(DropoutKernel, DropsTheAskedShareOfEveryRowAndColumn) {
  constexpr int kRows = 2000, kCols = 400;
  const uint32_t keep = static_cast<uint32_t>(0.7 * 4294967295.0);
  const std::vector<float> mask = Mask(Kernel(), kRows, kCols, 11, 0, keep);
  double total = 0;
  std::vector<double> columns(kCols), rows(kRows);
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kCols; ++j) {
      total += mask[i * kCols + j];
      columns[j] += mask[i * kCols + j];
      rows[i] += mask[i * kCols + j];
    }
  }
  // Five standard deviations.
  EXPECT_NEAR(total / (kRows * kCols), 0.7, 5 * std::sqrt(0.21 / (kRows * kCols)));
  for (double c : columns) EXPECT_NEAR(c / kRows, 0.7, 5 * std::sqrt(0.21 / kRows));
  for (double r : rows) EXPECT_NEAR(r / kCols, 0.7, 5 * std::sqrt(0.21 / kCols));
}

TEST(DropoutKernel, NeighboursAndStepsAreIndependent) {
  constexpr int kRows = 500, kCols = 200;
  const std::vector<float> a = Mask(Kernel(), kRows, kCols, 1, 0, kHalf);
  const std::vector<float> b = Mask(Kernel(), kRows, kCols, 2, 0, kHalf);
  double same_step = 0, same_column = 0, same_row = 0;
  const int n = (kRows - 1) * (kCols - 1);
  for (int i = 0; i + 1 < kRows; ++i) {
    for (int j = 0; j + 1 < kCols; ++j) {
      const float at = a[i * kCols + j];
      same_step += at == b[i * kCols + j];
      same_column += at == a[(i + 1) * kCols + j];
      same_row += at == a[i * kCols + j + 1];
    }
  }
  for (double same : {same_step, same_column, same_row}) {
    EXPECT_NEAR(same / n, 0.5, 5 * std::sqrt(0.25 / n));
  }
}

TEST(DropoutKernel, MaskBelongsToTheRowAndNotToTheTile) {
  const std::vector<float> whole = Mask(Kernel(), 30, 37, 3, 0, kHalf);
  const std::vector<float> part = Mask(Kernel(), 10, 37, 3, 13, kHalf);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 13 * 37));
  EXPECT_EQ(whole, Mask(CpuDevices()[0]->kernels(), 30, 37, 3, 0, kHalf));
}

TEST(Kernels, InstructionSetsAgree) {
  constexpr int kRows = 7, kCols = 21;
  std::vector<float> x(kRows * kCols), g(kRows * kCols);
  for (int i = 0; i < kRows * kCols; ++i) {
    x[i] = static_cast<float>(RandomNormal(1, i));
    g[i] = static_cast<float>(RandomNormal(2, i));
  }
  auto run = [&](const Kernels& k) {
    std::vector<float> out(6 * kRows * kCols + 8 * kCols, 0.25f);
    float* at = out.data();
    auto next = [&](int n) { return std::exchange(at, at + n); };
    float* mean = next(kCols);
    float* m2 = next(kCols);
    k.column_moments(kRows, kCols, x.data(), mean, m2);
    k.add_rows(kRows, kCols, x.data(), g.data(), next(kCols));
    float* sum_g = next(kCols);
    float* sum_gx = next(kCols);
    k.norm_sums(kRows, kCols, g.data(), x.data(), mean, m2, sum_g, sum_gx);
    k.norm_backward(kRows, kCols, g.data(), x.data(), mean, m2, m2, sum_g, sum_gx,
                    next(kRows * kCols), true);
    k.scale_shift(kRows, kCols, x.data(), mean, m2, next(kRows * kCols));
    k.relu_backward(kRows * kCols, x.data(), g.data(), next(kRows * kCols), true);
    k.multiply_add(kRows * kCols, x.data(), g.data(), x.data(), next(kRows * kCols));
    return out;
  };
  // No loop here contracts, so all give the same bits.
  for (const Device* device : CpuDevices()) {
    EXPECT_EQ(run(device->kernels()), run(CpuDevices()[0]->kernels())) << device->name();
  }
}

TEST(Kernels, InstructionSetsAgreeOnFm) {
  constexpr int kRows = 7, kSlots = 3;
  for (const int dim : {7, 8, 16}) {  // In memory, and in registers.
    const int width = kSlots * dim;
    std::vector<float> x(kRows * width), g(kRows);
    for (int i = 0; i < kRows * width; ++i) x[i] = static_cast<float>(RandomNormal(1, i));
    for (int i = 0; i < kRows; ++i) g[i] = static_cast<float>(RandomNormal(2, i));
    const uint32_t to[kRows] = {3, 1, 6, 99, 0, 2, 5};
    auto run = [&](const FieldKernels& k) {
      std::vector<float> sums(kRows * 2 * dim, 0.25f), y(kRows), out(2 * kRows * width, 0.25f);
      k.fm_sums(kRows, kSlots, dim, {x.data(), width}, sums.data(), true);
      k.fm(kRows, dim, sums.data(), y.data());
      k.fm_backward(kRows, kSlots, dim, {x.data(), width}, sums.data(), g.data(),
                    {out.data(), width}, false);
      k.fm_shared_backward(kRows, kSlots, dim, {x.data(), width}, sums.data(), to, 99,
                           {out.data() + kRows * width, width});
      for (const std::vector<float>& more : {sums, y}) {
        out.insert(out.end(), more.begin(), more.end());
      }
      return out;
    };
    for (const Device* device : CpuDevices()) {
      EXPECT_EQ(run(device->fields()), run(CpuDevices()[0]->fields())) << device->name() << dim;
    }
  }
}

}  // namespace
}  // namespace starling
