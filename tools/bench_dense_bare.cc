#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/random.h"
#include "tools/bench_dense.h"

namespace starling {
namespace {

constexpr int kTile = 256, kTries = 3;

std::vector<float> Draw(int64_t n, uint64_t key) {
  std::vector<float> values(n);
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<float>(RandomNormal(key, i));
  return values;
}

}  // namespace

BareStep::BareStep(std::vector<DenseLayer> layers, int rows, ThreadPool* pool)
    : layers_(std::move(layers)),
      core_rows_((rows + pool->threads() - 1) / pool->threads()),
      pool_(pool),
      operands_(pool->threads()) {
  for (std::vector<Operands>& core : operands_) {
    for (const DenseLayer& layer : layers_) {
      const int64_t in = int64_t{core_rows_} * layer.in, out = int64_t{core_rows_} * layer.out;
      const int64_t weights = int64_t{layer.in} * layer.out;
      core.push_back({Draw(in, 1), Draw(weights, 2), Draw(out, 3), std::vector<float>(in),
                      std::vector<float>(weights)});
    }
  }
  struct Way {
    const char* name;
    BareGemm gemm;
    int tile;
  };
  Way fastest{};
  absl::Duration least = absl::InfiniteDuration();
  for (int tile : {core_rows_, std::min(kTile, core_rows_)}) {
    for (const Way& way :
         {Way{"Eigen", EigenGemm(), tile}, Way{"OpenBLAS", OpenBlasGemm(), tile}}) {
      if (way.gemm == nullptr) continue;
      gemm_ = way.gemm;
      tile_ = way.tile;
      for (int i = 0; i < kTries; ++i) {
        const absl::Time start = absl::Now();
        Run();
        const absl::Duration took = absl::Now() - start;
        if (took < least) fastest = way;
        least = std::min(least, took);
      }
    }
  }
  gemm_ = fastest.gemm;
  tile_ = fastest.tile;
  name_ = absl::StrCat("bare products (", fastest.name, ", ", tile_, " rows at once), all cores");
}

void BareStep::Run() {
  pool_->ParallelFor(pool_->threads(), [&](int core) {
    for (size_t i = 0; i < layers_.size(); ++i) RunCore(layers_[i], &operands_[core][i]);
  });
}

void BareStep::RunCore(const DenseLayer& layer, Operands* o) const {
  const auto [in, out, input_grad] = layer;
  for (int first = 0; first < core_rows_; first += tile_) {
    const int m = std::min(tile_, core_rows_ - first);
    float* x = o->x.data() + int64_t{first} * in;
    float* y = o->y.data() + int64_t{first} * out;
    gemm_({.m = m, .n = out, .k = in, .a = x, .b = o->w.data(), .c = y});
    gemm_({.a_transposed = true,
           .add = first > 0,
           .m = in,
           .n = out,
           .k = m,
           .a = x,
           .b = y,
           .c = o->dw.data()});
    if (!input_grad) continue;
    float* dx = o->dx.data() + int64_t{first} * in;
    gemm_({.b_transposed = true, .m = m, .n = in, .k = out, .a = y, .b = o->w.data(), .c = dx});
  }
}

}  // namespace starling
