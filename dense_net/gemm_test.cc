#include "dense_net/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "dense_net/device.h"

namespace starling {

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

// Shapes around the register block (12, 6 and 2 rows), the panel, the strip and the depth of a
// block.
const Product kProducts[] = {{1, 1, 1},     {1, 16, 3},    {2, 15, 8},   {5, 17, 33},
                             {6, 32, 512},  {7, 31, 513},  {13, 48, 29}, {100, 5, 64},
                             {97, 33, 700}, {24, 64, 257}, {37, 61, 300}};

GemmB Packed(const Device& device, const Product& p, std::vector<float>* memory) {
  memory->assign(PackedGemmFloats(p.k, p.n), NAN);
  return device.PackGemmB(p.k, p.n, p.b.data(), p.n, 1, memory->data());
}

TEST(Gemm, EveryInstructionSetMultiplies) {
  for (const Device* device : CpuDevices()) {
    for (const Product& p : kProducts) {
      std::vector<float> memory, c = p.start;
      const GemmB b = Packed(*device, p, &memory);
      device->Gemm(p.m, p.n, p.k, {p.a.data(), p.k, 1}, b, GemmStart::kBias, p.bias.data(),
                   c.data());
      std::vector<float> added = p.start, at(p.a.size());
      for (int i = 0; i < p.m; ++i)
        for (int j = 0; j < p.k; ++j) at[j * p.m + i] = p.a[i * p.k + j];
      device->Gemm(p.m, p.n, p.k, {at.data(), 1, p.m}, b, GemmStart::kAdd, nullptr, added.data());
      for (int i = 0; i < p.m; ++i) {
        for (int j = 0; j < p.n; ++j) {
          const double near = 1e-5 * std::sqrt(p.k) + 1e-5;
          EXPECT_NEAR(c[i * p.n + j], p.Exact(i, j) + p.bias[j], near) << device->name();
          EXPECT_NEAR(added[i * p.n + j], p.Exact(i, j) + p.start[i * p.n + j], near);
        }
      }
    }
  }
}

TEST(Gemm, TransposedPackingEqualsPackingTheTranspose) {
  const Product p = {3, 37, 21};
  std::vector<float> memory, bt(p.b.size()), from_transposed(PackedGemmFloats(p.k, p.n));
  Packed(CpuDevice(), p, &memory);
  for (int i = 0; i < p.k; ++i)
    for (int j = 0; j < p.n; ++j) bt[j * p.k + i] = p.b[i * p.n + j];
  CpuDevice().PackGemmB(p.k, p.n, bt.data(), 1, p.k, from_transposed.data());
  EXPECT_EQ(memory, from_transposed);
}

// The heart of the one scorer: neither neighbours, packing nor orientation matter.
TEST(Gemm, ElementHasTheSameBitsInEveryProduct) {
  for (const Device* device : CpuDevices()) {
    for (const Product& p : kProducts) {
      std::vector<float> memory, whole(p.m * p.n);
      const GemmB b = Packed(*device, p, &memory);
      device->Gemm(p.m, p.n, p.k, {p.a.data(), p.k, 1}, b, GemmStart::kBias, p.bias.data(),
                   whole.data());
      std::vector<float> last(p.k * kGemmPanel), row(p.n);
      const GemmB view = device->ViewGemmB(p.k, p.n, p.b.data(), last.data());
      for (int i = 0; i < p.m; ++i) {
        device->Gemm(1, p.n, p.k, {&p.a[i * p.k], p.k, 1}, view, GemmStart::kBias, p.bias.data(),
                     row.data());
        for (int j = 0; j < p.n; ++j) EXPECT_EQ(row[j], whole[i * p.n + j]) << p.m << " " << p.n;
      }
    }
  }
}

// A with zeros is multiplied without them if it has enough of them and of rows: a single row
// never is.
TEST(Gemm, ZerosThatAreLeftOutChangeNoBit) {
  const int kShapes[][3] = {{24, 64, 32},    {96, 400, 400},  {97, 141, 97},
                            {203, 256, 100}, {31, 1000, 193}, {531, 70, 65}};
  for (const Device* device : CpuDevices()) {
    for (const auto& [m, n, k] : kShapes) {
      for (const double zeros : {0.2, 0.4, 0.9, 1.0}) {
        Product p = {m, n, k};
        for (size_t i = 0; i < p.a.size(); ++i) {
          if (RandomUniform(5, i) < zeros) p.a[i] = 0;
        }
        std::vector<float> memory, last(k * kGemmPanel), turned(p.a.size());
        for (int i = 0; i < m; ++i)
          for (int j = 0; j < k; ++j) turned[j * m + i] = p.a[i * k + j];
        const GemmB packed = Packed(*device, p, &memory);
        const GemmB view = device->ViewGemmB(k, n, p.b.data(), last.data());
        for (const GemmStart start : {GemmStart::kZero, GemmStart::kBias, GemmStart::kAdd}) {
          std::vector<float> rows = p.start;
          for (int i = 0; i < m; ++i) {
            device->Gemm(1, n, k, {&p.a[i * k], k, 1}, packed, start, p.bias.data(), &rows[i * n]);
          }
          for (const GemmA& a : {GemmA{p.a.data(), k, 1}, GemmA{turned.data(), 1, m}}) {
            for (const GemmB& b : {packed, view}) {
              std::vector<float> whole = p.start;
              device->Gemm(m, n, k, a, b, start, p.bias.data(), whole.data());
              EXPECT_EQ(whole, rows) << device->name() << " " << m << " " << n << " " << zeros;
            }
          }
        }
      }
    }
  }
}

// So that machines with and without AVX-512 give the same scores.
// Likewise B's, where what is added to is a gradient of weights.
TEST(Gemm, ZerosOfBThatAreLeftOutChangeNoBit) {
  const int kShapes[][3] = {{64, 24, 128}, {1600, 200, 256}, {145, 411, 300}, {203, 70, 129}};
  for (const Device* device : CpuDevices()) {
    for (const auto& [m, n, k] : kShapes) {
      for (const double zeros : {0.2, 0.5, 0.9, 1.0}) {
        Product p = {m, n, k};
        for (size_t i = 0; i < p.b.size(); ++i) {
          if (RandomUniform(5, i) < zeros) p.b[i] = 0;
        }
        std::vector<float> memory, last(k * kGemmPanel), turned(p.a.size());
        for (int i = 0; i < m; ++i)
          for (int j = 0; j < k; ++j) turned[j * m + i] = p.a[i * k + j];
        const GemmB packed = Packed(*device, p, &memory);
        const GemmB view = device->ViewGemmB(k, n, p.b.data(), last.data());
        std::vector<float> rows = p.start;
        for (int i = 0; i < m; ++i) {
          device->Gemm(1, n, k, {&p.a[i * k], k, 1}, packed, GemmStart::kAdd, nullptr,
                       &rows[i * n]);
        }
        for (const GemmB& b : {packed, view}) {
          std::vector<float> whole = p.start;
          device->Gemm(m, n, k, {turned.data(), 1, m}, b, GemmStart::kAdd, nullptr, whole.data());
          EXPECT_EQ(whole, rows) << device->name() << " " << m << " " << n << " " << zeros;
        }
      }
    }
  }
}

TEST(Gemm, Avx512GivesTheBitsOfAvx2) {
  if (CpuDevices().size() < 3) GTEST_SKIP() << "no AVX-512 here";
  for (const Product& p : kProducts) {
    auto run = [&](const Device& device) {
      std::vector<float> memory, c(p.m * p.n), dots(p.m);
      device.Gemm(p.m, p.n, p.k, {p.a.data(), p.k, 1}, Packed(device, p, &memory), GemmStart::kBias,
                  p.bias.data(), c.data());
      device.RowDots(p.m, p.k, p.a.data(), p.b.data(), 0.5f, dots.data());
      c.insert(c.end(), dots.begin(), dots.end());
      return c;
    };
    EXPECT_EQ(run(*CpuDevices()[2]), run(*CpuDevices()[1])) << p.m << " " << p.n << " " << p.k;
  }
}

TEST(Gemm, RowDotsMultiplyByOneColumn) {
  for (const Device* device : CpuDevices()) {
    for (const Product& p : {Product{7, 1, 1}, Product{5, 1, 31}, Product{9, 1, 437}}) {
      std::vector<float> y(p.m), alone(1);
      device->RowDots(p.m, p.k, p.a.data(), p.b.data(), 0.5f, y.data());
      for (int i = 0; i < p.m; ++i) {
        EXPECT_NEAR(y[i], 0.5 + p.Exact(i, 0), 1e-4);
        device->RowDots(1, p.k, &p.a[i * p.k], p.b.data(), 0.5f, alone.data());
        EXPECT_EQ(y[i], alone[0]);
      }
    }
  }
}

}  // namespace
}  // namespace starling
