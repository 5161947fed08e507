#include "dense_net/device.h"

#include <algorithm>
#include <vector>

#include "base/big_memory.h"
#include "dense_net/dispatch.h"

namespace starling {

GemmB Device::PackGemmB(int k, int n, const Real* b, int64_t row_stride, int64_t col_stride,
                        Real* out) const {
  set_.gemm->pack(k, n, b, row_stride, col_stride, out);
  return PackedGemmB(k, n, out);
}

GemmB Device::ViewGemmB(int k, int n, const Real* b, Real* last) const {
  const int whole = n / kGemmPanel * kGemmPanel;
  if (whole < n) set_.gemm->pack(k, n - whole, b + whole, n, 1, last);
  return {b, kGemmPanel, n, last};
}

void Device::Gemm(int m, int n, int k, const GemmA& a, const GemmB& b, GemmStart start,
                  const Real* bias, Real* c) const {
  set_.gemm->gemm(m, n, k, a, b, start, bias, c);
}

void Device::RowDots(int m, int k, const Real* x, const Real* w, Real start, Real* y) const {
  set_.gemm->row_dots(m, k, x, w, start, y);
}

namespace {

class Cpu : public Device {
 public:
  using Device::Device;
  Real* Allocate(int64_t floats) const override {
    return static_cast<Real*>(AllocateBig(floats * sizeof(Real)));
  }
  void Free(Real* memory) const override { FreeBig()(memory); }
  void Upload(int64_t floats, const Real* host, Real* device) const override {
    std::copy_n(host, floats, device);
  }
  void Download(int64_t floats, const Real* device, Real* host) const override {
    std::copy_n(device, floats, host);
  }
  absl::Status Finish() const override { return absl::OkStatus(); }
};

}  // namespace

std::span<const Device* const> CpuDevices() {
  static const auto* devices = [] {
    auto* all = new std::vector<const Device*>;
    for (const KernelSet& set : CpuKernelSets()) all->push_back(new Cpu(set));
    return all;
  }();
  return *devices;
}

const Device& CpuDevice() {
  static const Device* best = CpuDevices().back();
  return *best;
}

}  // namespace starling
