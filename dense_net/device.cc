#include "dense_net/device.h"

#include <cstring>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
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
  void* Allocate(int64_t bytes) const override { return AllocateBig(bytes); }
  void Free(void* memory) const override { FreeBig()(memory); }
  void Upload(int64_t bytes, const void* host, void* device) const override {
    if (bytes > 0) std::memcpy(device, host, bytes);
  }
  void Download(int64_t bytes, const void* device, void* host) const override {
    if (bytes > 0) std::memcpy(host, device, bytes);
  }
  bool is_host() const override { return true; }
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

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const std::string& name) {
  constexpr int kMost = 64;
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" ", why));
  };
  const size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  int index = -1;
  if (kind != "cpu" && kind != "cuda") return bad("is no device: give cpu:0, cpu:1, ...");
  const std::string number = colon == std::string::npos ? "" : name.substr(colon + 1);
  if (!absl::SimpleAtoi(number, &index) || number != absl::StrCat(index) || index < 0 ||
      index >= kMost) {
    return bad(absl::StrCat("must end in a number of 0..", kMost - 1, ", as ", kind, ":0"));
  }
  if (kind == "cuda") return bad("is a GPU, and this program was built without CUDA: give cpu:0");
  return std::make_unique<Cpu>(CpuKernelSets().back());
}

}  // namespace starling
