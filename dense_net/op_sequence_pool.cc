#include <algorithm>
#include <cmath>
#include <utility>

#include "dense_net/kernels.h"
#include "dense_net/ops.h"

namespace starling {
namespace {

class SequencePoolOp : public Op {
 public:
  SequencePoolOp(std::string name, Value x, SequencePooling kind)
      : Op(std::move(name), {x}, x.width), kind_(kind), x_sequence_(x.sequence) {}

  int sequence() const override { return -1; }

  void Forward(const OpTile& tile) const override {
    for (int i = 0; i < tile.rows; ++i) {
      const int64_t begin = tile.PositionsBefore(x_sequence_, i);
      const int64_t end = tile.PositionsBefore(x_sequence_, i + 1);
      Real* out = tile.out + int64_t{i} * width();
      if (begin == end) {
        std::fill_n(out, width(), Real{0});
      } else {
        PoolRow(tile.in[0], begin, end, out);
      }
    }
  }

  void Backward(const OpTile& tile) const override {
    if (tile.in_grad[0] == nullptr) return;
    for (int i = 0; i < tile.rows; ++i) {
      const int64_t begin = tile.PositionsBefore(x_sequence_, i);
      const int64_t end = tile.PositionsBefore(x_sequence_, i + 1);
      const Real* out = tile.out + int64_t{i} * width();
      const Real* g = tile.out_grad + int64_t{i} * width();
      for (int d = 0; d < width() && begin < end; ++d) {
        const int64_t chosen = Chosen(tile.in[0], begin, end, d, out[d]);
        const Real share = kind_ == SequencePooling::kMean ? g[d] / Real(end - begin) : g[d];
        for (int64_t p = begin; p < end; ++p) {
          Real* to = tile.in_grad[0] + p * width() + d;
          const Real add = chosen < 0 || chosen == p ? share : 0;
          *to = tile.in_add[0] ? *to + add : add;
        }
      }
    }
  }

 private:
  void PoolRow(const Real* x, int64_t begin, int64_t end, Real* out) const {
    if (kind_ == SequencePooling::kLast) begin = end - 1;
    std::copy_n(x + begin * width(), width(), out);
    for (int64_t p = begin + 1; p < end; ++p) {
      const Real* from = x + p * width();
      for (int d = 0; d < width(); ++d) {
        if (kind_ != SequencePooling::kMax) {
          out[d] += from[d];
        } else if (from[d] > out[d] || std::isnan(from[d])) {  // A NaN must stay one.
          out[d] = from[d];
        }
      }
    }
    if (kind_ != SequencePooling::kMean) return;
    for (int d = 0; d < width(); ++d) out[d] /= Real(end - begin);
  }

  // The one position that the gradient of column d goes to; -1: to all.
  int64_t Chosen(const Real* x, int64_t begin, int64_t end, int d, Real out) const {
    if (kind_ == SequencePooling::kLast) return end - 1;
    if (kind_ != SequencePooling::kMax) return -1;
    int64_t p = begin;
    while (p + 1 < end && x[p * width() + d] != out) ++p;
    return p;
  }

  const SequencePooling kind_;
  const int x_sequence_;
};

}  // namespace

Value SequencePool(GraphBuilder* graph, std::string name, Value x, SequencePooling kind) {
  return graph->Append(std::make_unique<SequencePoolOp>(std::move(name), x, kind));
}

}  // namespace starling
