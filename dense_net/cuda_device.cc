#include "dense_net/cuda_device.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace starling {
namespace {

// The first failure of this thread since its last Finish.
thread_local std::string failure;

void Note(cudaError_t error, const char* what) {
  if (error == cudaSuccess || !failure.empty()) return;
  failure = absl::StrCat("cuda: ", what, ": ", cudaGetErrorString(error));
}
void Note(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS || !failure.empty()) return;
  failure = absl::StrCat("cublas: ", what, ": ", cublasGetStatusString(status));
}

// cuBLAS wants one handle a thread; it lives as long as the thread.
struct Handle {
  Handle() {
    Note(cublasCreate(&cublas), "create");
    Note(cublasSetStream(cublas, cudaStreamPerThread), "stream");
  }
  ~Handle() { cublasDestroy(cublas); }
  cublasHandle_t cublas = nullptr;
};
cublasHandle_t Cublas() {
  thread_local const Handle handle;
  return handle.cublas;
}

constexpr float kOne = 1, kZero = 0;

// cuBLAS is column-major: it computes the transpose of C from those of B and A.
void Multiply(int m, int n, int k, const GemmA& a, const GemmB& b, GemmStart start,
              const float* bias, float* c) {
  if (start == GemmStart::kBias) cuda::kKernels.spread(m, n, bias, c);
  const float* beta = start == GemmStart::kZero ? &kZero : &kOne;
  const bool down = a.row_stride == 1 && a.col_stride != 1;
  const cublasOperation_t a_op = down ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int a_stride = static_cast<int>(down ? a.col_stride : a.row_stride);
  const int panels = n / kGemmPanel, whole = panels * kGemmPanel, rest = n - whole;
  if (panels > 0) {
    // A view is one matrix; packed panels are a batch of narrow ones.
    const bool view = b.panel_stride == kGemmPanel;
    Note(cublasSgemmStridedBatched(Cublas(), CUBLAS_OP_N, a_op, view ? whole : kGemmPanel, m, k,
                                   &kOne, b.data, static_cast<int>(b.row_stride), b.panel_stride,
                                   a.data, a_stride, 0, beta, c, n, kGemmPanel, view ? 1 : panels),
         "gemm");
  }
  if (rest > 0) {
    Note(cublasSgemm(Cublas(), CUBLAS_OP_N, a_op, rest, m, k, &kOne, b.last, kGemmPanel, a.data,
                     a_stride, beta, c + whole, n),
         "gemm");
  }
}

void RowDots(int m, int k, const float* x, const float* w, float start, float* y) {
  cuda::kKernels.fill(m, start, y);
  Note(cublasSgemv(Cublas(), CUBLAS_OP_T, k, m, &kOne, x, k, w, 1, &kOne, y, 1), "gemv");
}

constexpr GemmKernels kGemm = {"cuda", Multiply, cuda::Pack, RowDots};
constexpr KernelSet kKernelSet = {&kGemm, &cuda::kKernels, &cuda::kFieldKernels,
                                  &cuda::kSequenceKernels, &cuda::kLossKernels};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(int index) : Device(kKernelSet), index_(index) {}
  void* Allocate(int64_t bytes) const override {
    Enter();
    void* memory = nullptr;
    if (cudaMalloc(&memory, bytes) != cudaSuccess) throw std::bad_alloc();
    return memory;
  }
  void Free(void* memory) const override { Note(cudaFree(memory), "free"); }
  void Upload(int64_t bytes, const void* host, void* device) const override {
    Move(bytes, host, device, cudaMemcpyHostToDevice);
  }
  void Download(int64_t bytes, const void* device, void* host) const override {
    Move(bytes, device, host, cudaMemcpyDeviceToHost);
  }
  void Enter() const override { Note(cudaSetDevice(index_), "device"); }
  absl::Status Finish() const override {
    Enter();
    Note(cudaGetLastError(), "launch");
    Note(cudaStreamSynchronize(cudaStreamPerThread), "kernels");
    if (failure.empty()) return absl::OkStatus();
    return absl::InternalError(std::exchange(failure, {}));
  }

 private:
  void Move(int64_t bytes, const void* from, void* to, cudaMemcpyKind kind) const {
    Enter();
    Note(cudaMemcpyAsync(to, from, bytes, kind, cudaStreamPerThread), "copy");
  }

  const int index_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> OpenCudaDevice(int index) {
  const cudaError_t error = cudaSetDevice(index);
  if (error != cudaSuccess) {
    return absl::UnavailableError(
        absl::StrCat("cuda: device ", index, ": ", cudaGetErrorString(error)));
  }
  return std::make_unique<CudaDevice>(index);
}

}  // namespace starling
