// Ops reach kernels, products and memory through the device they are handed;
// and the kernels' functors give the same bits in whatever order a device runs
// them, which is all that a GPU changes.
#include "dense_net/device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "base/random.h"
#include "dense_net/dispatch.h"
#include "dense_net/test_world.h"

#define STARLING_ISA backwards
#include "dense_net/field_kernels_on.h"
#include "dense_net/loss_kernels_on.h"
#include "dense_net/sequence_kernels_on.h"

namespace starling {
namespace backwards {

// As a GPU: every row has scratch of its own, none relies on the one before,
// and a column is one thread's.
struct Backwards {
  static constexpr bool kRowsInOrder = false;
  template <typename Fn>
  static void Elements(int64_t n, const Fn& fn) {
    for (int64_t i = n; i-- > 0;) fn(i);
  }
  template <typename Fn>
  static void Matrix(int m, int n, const Fn& fn) {
    Elements(int64_t{m} * n, [&](int64_t at) { fn(int(at / n), int(at % n)); });
  }
  template <typename Fn>
  static void Columns(int m, int n, const Fn& fn) {
    Elements(n, [&](int64_t j) {
      for (int i = 0; i < m; ++i) fn(i, int(j));
    });
  }
  template <typename Fn>
  static void Rows(int m, const Fn& fn) {
    Elements(m, [&](int64_t i) { fn(int(i)); });
  }
  template <typename Fn>
  static void Rows(int m, int floats, Real* scratch, const Fn& fn) {
    Elements(m, [&](int64_t i) { fn(int(i), scratch + i * floats); });
  }
};
const Kernels kKernels = KernelsOn<Backwards>::kTable;
const FieldKernels kFieldKernels = FieldKernelsOn<Backwards>::kTable;
const SequenceKernels kSequenceKernels = SequenceKernelsOn<Backwards>::kTable;
const LossKernels kLossKernels = LossKernelsOn<Backwards>::kTable;

}  // namespace backwards

namespace {

std::atomic<int64_t> gemms{0};
void CountedGemm(int m, int n, int k, const GemmA& a, const GemmB& b, GemmStart start,
                 const Real* bias, Real* c) {
  ++gemms;
  CpuDevice().Gemm(m, n, k, a, b, start, bias, c);
}

class OtherDevice : public Device {
 public:
  OtherDevice()
      : Device({&gemm_, &backwards::kKernels, &backwards::kFieldKernels,
                &backwards::kSequenceKernels, &backwards::kLossKernels}) {}
  void* Allocate(int64_t bytes) const override {
    ++allocated;
    return CpuDevice().Allocate(bytes);
  }
  void Free(void* memory) const override {
    ++freed;
    CpuDevice().Free(memory);
  }
  void Upload(int64_t n, const void* host, void* device) const override {
    CpuDevice().Upload(n, host, device);
  }
  void Download(int64_t n, const void* device, void* host) const override {
    CpuDevice().Download(n, device, host);
  }
  absl::Status Finish() const override { return absl::OkStatus(); }
  mutable std::atomic<int> allocated{0}, freed{0};

 private:
  const GemmKernels gemm_ = {"other", CountedGemm, CpuKernelSets().back().gemm->pack,
                             CpuKernelSets().back().gemm->row_dots};
};

TEST(Device, AStepGivesTheSameBitsOnAnyDevice) {
  for (const char* model :
       {"deepfm { hidden: 20 hidden: 9 dropout: 0.2 batch_norm: true }",
        "dcnv2 { cross_layers: 2 hidden: 8 activation: TANH }",
        "lr {}",
        "wide_deep { hidden: 5 activation: SIGMOID }",
        "fwfm {}",
        "nfm { hidden: 5 activation: GELU }",
        "dcn { cross_layers: 2 }",
        "dcnv2 { cross_layers: 2 rank: 3 experts: 2 }",
        "xdeepfm { cin: 5 cin: 3 hidden: 4 }",
        "pnn { hidden: 5 }",
        "pnn { hidden: 5 product: OUTER }",
        "pnn { hidden: 5 product: BILINEAR }",
        "dlrm { bottom: 4 hidden: 5 }",
        "autoint { attention_layers: 2 heads: 2 attention_dim: 6 "
        "layer_norm: true hidden: 4 wide: true }",
        "finalmlp { mlp1 { hidden: 6 } mlp2 { hidden: 4 } heads: 2 "
        "gate1: 'f00' gate_hidden: 3 }",
        "dnn { hidden: 8 activation: PRELU layer_norm: true }",
        "dnn { hidden: 8 activation: LEAKY_RELU residual { kind: GROUPED } }",
        "din { attention { sequence: 's0' sequence: 's1' target: 'f00' target: "
        "'f10' } attention_hidden: 5 attention_softmax: true hidden: 4 }",
        "dien { attention { sequence: 's0' sequence: 's1' target: 'f00' "
        "target: 'f10' } attention_hidden: 4 hidden: 4 }",
        "ple { expert { hidden: 4 hidden: 3 } tower { hidden: 3 } } | name: "
        "'a' label: 'y0' | name: 'b' label: 'y1'",
        "dssm { user: 'f00' user: 'r0' item: 'f01' item: 'f10' item: 'f11' "
        "item: 'r1' tower { hidden: 5 hidden: 3 } }",
        "dssm { user: 'f00' user: 'r0' item: 'f01' item: 'f10' item: 'f11' "
        "item: 'r1' tower { hidden: 3 } } | name: 'a' label: 'y1' "
        "loss { sampled_softmax { item: 'f01' } }",
        "dssm { user: 'f00' user: 'r0' item: 'f01' item: 'f10' item: 'f11' "
        "item: 'r1' tower { hidden: 3 } } | name: 'a' label: 'y1' "
        "loss { sampled_softmax { item: 'f01' negatives: 4 streaming { buckets: 9 } } }",
        "esmm { hidden: 4 } | name: 'a' label: 'y0' | name: 'b' label: 'y1'",
        "dnn { hidden: 4 } | name: 'a' label: 'y1' given: 'y0' loss { focal {} }",
        "dnn { hidden: 4 } | name: 'a' label: 'y1' loss { mse {} }",
        "dnn { hidden: 4 } | name: 'a' label: 'y1' loss { pairwise {} }"}) {
    const World world = MakeWorld(model, {.rows = 100});
    OtherDevice other;
    auto cpu = MakeNetwork(world.spec, {.tile = 16});
    auto network = MakeNetwork(world.spec, {.tile = 16, .device = &other});
    const std::vector<Real> params = RandomParams(*cpu, 3);
    auto want = RunTrain(*cpu, world, params), got = RunTrain(*network, world, params);
    ASSERT_TRUE(want.ok() && got.ok());
    EXPECT_EQ(got->scores, want->scores) << model;
    EXPECT_EQ(got->param_grads, want->param_grads) << model;
    EXPECT_EQ(got->row_grads, want->row_grads) << model;
    EXPECT_EQ(RunScore(*network, world.batch, world.rows, params),
              RunScore(*cpu, world.batch, world.rows, params));
  }
}

TEST(Device, OpsTakeProductsAndMemoryFromTheirs) {
  const World world = MakeWorld("dnn { hidden: 20 }", {.rows = 30});
  OtherDevice other;
  auto network = MakeNetwork(world.spec, {.tile = 30, .device = &other});
  gemms = 0;
  ASSERT_TRUE(RunTrain(*network, world, RandomParams(*network, 3)).ok());
  EXPECT_EQ(gemms, 4);  // Forward, weights, the input's gradient; the logit's input.
  EXPECT_GT(other.allocated, 4);
  EXPECT_EQ(other.allocated, other.freed);
}

TEST(Device, CpuMemoryGoesInAndOut) {
  const std::vector<Real> from = {1, 2, 3};
  std::vector<Real> to(3);
  const int64_t bytes = 3 * sizeof(Real);
  void* memory = CpuDevice().Allocate(bytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
  CpuDevice().Upload(bytes, from.data(), memory);
  CpuDevice().Download(bytes, memory, to.data());
  EXPECT_TRUE(CpuDevice().Finish().ok());
  CpuDevice().Free(memory);
  EXPECT_EQ(to, from);
}

TEST(Device, NamesThatAreNoneSayWhy) {
  EXPECT_TRUE(OpenDevice("cpu:0").ok() && OpenDevice("cpu:63").ok());
  for (const char* name : {"", "cpu", "cpu:", "cpu:-1", "cpu:+1", "cpu:01", "cpu:64", "cpu:0 ",
                           "CPU:0", "tpu:0", "cuda", "cuda:0", ":0", "cpu:0:1"}) {
    const absl::Status status = OpenDevice(name).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << name;
    EXPECT_NE(status.message().find(absl::StrCat("\"", name, "\"")), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace starling
