#include "tools/bench_gemm.h"

#include <dlfcn.h>

#include <string_view>

#include "dense_net/device.h"

namespace starling {

void EigenGemm_base(const BareProduct& product);
void EigenGemm_avx2(const BareProduct& product);
void EigenGemm_avx512(const BareProduct& product);

namespace {

// The C interface of BLAS, as far as it is called here.
constexpr int kRowMajor = 101, kAsIs = 111, kTransposed = 112;
using CblasSgemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                            const float* a, int lda, const float* b, int ldb, float beta, float* c,
                            int ldc);

CblasSgemm LoadOpenBlas() {
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  if (set_threads == nullptr) return nullptr;
  set_threads(1);
  return reinterpret_cast<CblasSgemm>(dlsym(library, "cblas_sgemm"));
}

CblasSgemm OpenBlas() {
  static const CblasSgemm sgemm = LoadOpenBlas();
  return sgemm;
}

void CallOpenBlas(const BareProduct& p) {
  OpenBlas()(kRowMajor, p.a_transposed ? kTransposed : kAsIs, p.b_transposed ? kTransposed : kAsIs,
             p.m, p.n, p.k, 1, p.a, p.a_transposed ? p.m : p.k, p.b, p.b_transposed ? p.k : p.n,
             p.add ? 1 : 0, p.c, p.n);
}

}  // namespace

BareGemm EigenGemm() {
  const std::string_view best = CpuDevice().name();
  return best == "avx512" ? EigenGemm_avx512 : best == "avx2" ? EigenGemm_avx2 : EigenGemm_base;
}

BareGemm OpenBlasGemm() { return OpenBlas() == nullptr ? nullptr : CallOpenBlas; }

}  // namespace starling
