#include "dense_net/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "dense_net/device.h"
#include "dense_net/dispatch.h"

namespace starling {

namespace base {
extern const GemmKernels kGemm;
}
namespace avx2 {
extern const GemmKernels kGemm;
}

namespace {

std::vector<float> Draw(int64_t n, uint64_t key) {
  std::vector<float> values(n);
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<float>(RandomNormal(key, i));
  return values;
}

struct Product {
  int m, n, k;
  std::vector<float> a = Draw(int64_t{m} * k, 1), b = Draw(int64_t{k} * n, 2),
                     start = Draw(int64_t{m} * n, 3), bias = Draw(n, 4);
  double Exact(int i, int j) const {
    double sum = 0;
    for (int p = 0; p < k; ++p) sum += double{a[i * k + p]} * b[p * n + j];
    return sum;
  }
};

// Shapes around the register block (6 and 2 rows), the panel, the strip and the depth of a block.
const Product kProducts[] = {{1, 1, 1},    {1, 16, 3},   {2, 15, 8},   {5, 17, 33},  {6, 32, 512},
                             {7, 31, 513}, {13, 48, 29}, {100, 5, 64}, {97, 33, 700}};

std::vector<const GemmKernels*> AllKernels() {
  std::vector<const GemmKernels*> all = {&base::kGemm};
  if (std::string(CpuDevice().name()) == "avx2") all.push_back(&avx2::kGemm);
  return all;
}

GemmB Packed(const GemmKernels& kernel, const Product& p, std::vector<float>* memory) {
  memory->assign(PackedGemmFloats(p.k, p.n), NAN);
  kernel.pack(p.k, p.n, p.b.data(), p.n, 1, memory->data());
  const int64_t panel = int64_t{p.k} * kGemmPanel;
  return {memory->data(), panel, kGemmPanel, memory->data() + p.n / kGemmPanel * panel};
}

TEST(Gemm, EveryInstructionSetMultiplies) {
  for (const GemmKernels* kernel : AllKernels()) {
    for (const Product& p : kProducts) {
      std::vector<float> memory, c = p.start;
      const GemmB b = Packed(*kernel, p, &memory);
      kernel->gemm(p.m, p.n, p.k, {p.a.data(), p.k, 1}, b, GemmStart::kBias, p.bias.data(),
                   c.data());
      std::vector<float> added = p.start, at(p.a.size());
      for (int i = 0; i < p.m; ++i)
        for (int j = 0; j < p.k; ++j) at[j * p.m + i] = p.a[i * p.k + j];
      kernel->gemm(p.m, p.n, p.k, {at.data(), 1, p.m}, b, GemmStart::kAdd, nullptr, added.data());
      for (int i = 0; i < p.m; ++i) {
        for (int j = 0; j < p.n; ++j) {
          const double near = 1e-5 * std::sqrt(p.k) + 1e-5;
          EXPECT_NEAR(c[i * p.n + j], p.Exact(i, j) + p.bias[j], near) << kernel->name;
          EXPECT_NEAR(added[i * p.n + j], p.Exact(i, j) + p.start[i * p.n + j], near);
        }
      }
    }
  }
}

TEST(Gemm, TransposedPackingEqualsPackingTheTranspose) {
  const Product p = {3, 37, 21};
  std::vector<float> memory, bt(p.b.size()), from_transposed(PackedGemmFloats(p.k, p.n));
  Packed(GemmKernel(), p, &memory);
  for (int i = 0; i < p.k; ++i)
    for (int j = 0; j < p.n; ++j) bt[j * p.k + i] = p.b[i * p.n + j];
  CpuDevice().PackGemmB(p.k, p.n, bt.data(), 1, p.k, from_transposed.data());
  EXPECT_EQ(memory, from_transposed);
}

// The heart of the one scorer: neither neighbours, packing nor orientation matter.
TEST(Gemm, ElementHasTheSameBitsInEveryProduct) {
  for (const Product& p : kProducts) {
    std::vector<float> memory, whole(p.m * p.n);
    const GemmB b = Packed(GemmKernel(), p, &memory);
    CpuDevice().Gemm(p.m, p.n, p.k, {p.a.data(), p.k, 1}, b, GemmStart::kBias, p.bias.data(),
                     whole.data());
    std::vector<float> last(p.k * kGemmPanel), row(p.n);
    const GemmB view = CpuDevice().ViewGemmB(p.k, p.n, p.b.data(), last.data());
    for (int i = 0; i < p.m; ++i) {
      CpuDevice().Gemm(1, p.n, p.k, {&p.a[i * p.k], p.k, 1}, view, GemmStart::kBias, p.bias.data(),
                       row.data());
      for (int j = 0; j < p.n; ++j) EXPECT_EQ(row[j], whole[i * p.n + j]) << p.m << " " << p.n;
    }
  }
}

TEST(Gemm, RowDotsMultiplyByOneColumn) {
  for (const GemmKernels* kernel : AllKernels()) {
    for (const Product& p : {Product{7, 1, 1}, Product{5, 1, 31}, Product{9, 1, 437}}) {
      std::vector<float> y(p.m), alone(1);
      kernel->row_dots(p.m, p.k, p.a.data(), p.b.data(), 0.5f, y.data());
      for (int i = 0; i < p.m; ++i) {
        EXPECT_NEAR(y[i], 0.5 + p.Exact(i, 0), 1e-4);
        kernel->row_dots(1, p.k, &p.a[i * p.k], p.b.data(), 0.5f, alone.data());
        EXPECT_EQ(y[i], alone[0]);
      }
    }
  }
}

}  // namespace
}  // namespace starling
