// Where ops run: the kernels, matrix products and memory of one processor.
//
// Ops have no other way to them: the executor hands each op a Device with its
// tile. CpuDevice() has kernels of the machine's best instruction set; a GPU
// (cuda_device.h) is a second implementation, with the same kernels compiled
// from the same functors (kernels_on.h).
//
// Thread safety: any method, any thread. What one thread asks for is done in
// that order; a device may still be at it when the call returns (see Finish).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dense_net/field_kernels.h"
#include "dense_net/kernels.h"
#include "dense_net/loss_kernels.h"
#include "dense_net/sequence_kernels.h"

namespace starling {

// All kernels of one processor or instruction set.
struct KernelSet {
  const GemmKernels* gemm;
  const Kernels* kernels;
  const FieldKernels* fields;
  const SequenceKernels* sequences;
  const LossKernels* losses;
};

class Device {
 public:
  explicit Device(const KernelSet& set) : set_(set) {}
  virtual ~Device() = default;

  const Kernels& kernels() const { return *set_.kernels; }
  const FieldKernels& fields() const { return *set_.fields; }
  const SequenceKernels& sequences() const { return *set_.sequences; }
  const LossKernels& losses() const { return *set_.losses; }
  const char* name() const { return set_.gemm->name; }

  // gemm.h has what these promise. No allocation.
  //
  // Packs B (k, n) with any strides into `out` (PackedGemmFloats).
  GemmB PackGemmB(int k, int n, const Real* b, int64_t row_stride, int64_t col_stride,
                  Real* out) const;
  // A view of row-major `b`; only the last, partial panel is copied, to `last` (k, kGemmPanel).
  GemmB ViewGemmB(int k, int n, const Real* b, Real* last) const;
  // C (m, n), row-major and dense, from A and B. `bias` (n) is read for kBias only.
  void Gemm(int m, int n, int k, const GemmA& a, const GemmB& b, GemmStart start, const Real* bias,
            Real* c) const;
  // y[i] = start + row i of x (m, k) times w (k): the product for one column. Its
  // order of summation is its own, and as independent of the other rows.
  void RowDots(int m, int k, const Real* x, const Real* w, Real start, Real* y) const;

  // Memory that this device's kernels may touch, on a cache line's border, with
  // unspecified content. Too little memory ends the process, as with `new`.
  virtual void* Allocate(int64_t bytes) const = 0;
  virtual void Free(void* memory) const = 0;
  // Between memory of the host and of the device.
  virtual void Upload(int64_t bytes, const void* host, void* device) const = 0;
  virtual void Download(int64_t bytes, const void* device, void* host) const = 0;
  // Its memory is the host's: what the host has need not be copied.
  virtual bool is_host() const { return false; }
  // From now on the calling thread's kernels and products run here.
  virtual void Enter() const {}
  // Returns when all that the calling thread asked for is done; the first
  // failure among it, if any.
  virtual absl::Status Finish() const = 0;

 private:
  const KernelSet set_;
};

// The CPU by its best instruction set, and by each it can run, that one last.
const Device& CpuDevice();
std::span<const Device* const> CpuDevices();

// "cpu:1": memory and copies of its own, on the machine's cores. InvalidArgument for what is no
// device's name; "cuda:N" is one that this program has none of.
absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const std::string& name);

}  // namespace starling
