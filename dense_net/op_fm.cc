#include <algorithm>

#include "dense_net/onnx_graph.h"
#include "dense_net/ops.h"
#include "dense_net/shared_slots.h"

namespace starling {
namespace {

// Half of (the squared sum less the sum of squares) of a row's vectors, so all that it needs of a
// request's are two sums. Where requests stand apart (shared_slots.h), these are taken once a
// request; a vector's gradient, g (sum - v), adds up over the request's rows to what the sums of
// g * sum and of g make of it.
class FmOp : public Op {
 public:
  FmOp(std::string name, Value x, int dim)
      : Op(std::move(name), {x}, 1), slots_(x.width / dim), dim_(dim) {}
  std::string Key() const override { return "fm " + std::to_string(dim_); }
  Shares shares() const override { return Shares::kRequests; }
  bool takes_requests_apart() const override { return true; }

  int64_t ScratchFloats(int tile) const override { return 2 * int64_t{tile} * dim_; }
  double ElementFlops() const override { return 3.0 * slots_ * dim_ + 3.0 * dim_ + 1; }

  int64_t StateFloats(const Step& step) const override { return Place(step, nullptr).floats; }
  int Parts(const Step& step) const override {
    return Apart(step) ? step.shared->request_parts() : 0;
  }

  void BeforeTiles(const Step& step, int part, Real* state) const override {
    const Places places = Place(step, state);
    const auto [first, count] = RequestsOf(*step.shared, part);
    Real* vectors = places.vectors + int64_t{first} * places.width;
    int at = 0;
    step.shared->ForApart([&](const SharedSlot& slot) {
      for (int p = slot.part; p < slot.part + slot.parts; ++p) {
        const SharedPart& of = step.shared->parts[p];
        step.device->kernels().pool(of.entries, first, count, of.offset, of.dim, vectors + at,
                                    places.width);
        at += of.dim;
      }
    });
    step.device->fields().fm_sums(count, places.width / dim_, dim_, {vectors, places.width},
                                  places.sums + int64_t{first} * 2 * dim_, false);
  }

  void Forward(const OpTile& tile) const override {
    Real* sums = SumUp(tile);
    tile.fields().fm(tile.rows, dim_, sums, tile.out);
  }

  void Backward(const OpTile& tile) const override {
    const bool apart = Apart(*tile.step);
    Real* sums = apart ? RowSums(tile) : SumUp(tile);
    SharedSlots::ForColumns(
        tile.step->shared, Embedding(), inputs()[0].width, [&](int begin, int width) {
          tile.fields().fm_backward(tile.rows, width / dim_, dim_, {tile.in[0] + begin, in_width()},
                                    sums, tile.out_grad, {tile.in_grad[0] + begin, in_width()},
                                    tile.in_add[0]);
        });
    if (!apart) return;
    tile.fields().scale_rows(tile.rows, dim_, 1, {sums, 2 * dim_}, {tile.out_grad, 1},
                             {sums, 2 * dim_}, false);
    tile.fields().copy_rows(tile.rows, 1, {tile.out_grad, 1}, {sums + dim_, 2 * dim_}, false);
  }

  void AfterTiles(const Step& step, int part, Real* state, Real*) const override {
    const Places places = Place(step, state);
    const SharedSlots& shared = *step.shared;
    const auto [first, count] = RequestsOf(shared, part);
    const uint32_t* request_of_row = step.batch->request_of_row.data();
    const uint32_t* end = request_of_row + step.batch->rows;
    const int64_t row = std::lower_bound(request_of_row, end, first) - request_of_row;
    const int64_t rows =
        std::lower_bound(request_of_row, end, first + count) - request_of_row - row;
    step.device->kernels().fill(int64_t{count} * 2 * dim_, 0,
                                places.sums + int64_t{first} * 2 * dim_);
    step.device->fields().scatter_add(static_cast<int>(rows), dim_ + 1, request_of_row + row,
                                      {places.rows + row * 2 * dim_, 2 * dim_},
                                      {places.sums, 2 * dim_});
    int at = 0;
    shared.ForApart([&](const SharedSlot& slot) {
      step.device->fields().fm_shared_backward(
          count, slot.dim / dim_, dim_,
          {places.vectors + int64_t{first} * places.width + at, places.width},
          places.sums + int64_t{first} * 2 * dim_, slot.first_row + first, step.batch->rows,
          {shared.gradient + slot.column, shared.stride});
      at += slot.dim;
    });
  }

  absl::StatusOr<std::string> ToOnnx(const std::vector<std::string>& in,
                                     OnnxGraph* onnx) const override {
    const std::string x = onnx->Reshape(in[0], {-1, slots_, dim_});
    const std::string sum = onnx->Sum(x, 1, false);
    const std::string squares = onnx->Sum(onnx->Node("Mul", {x, x}), 1, false);
    const std::string twice = onnx->Node("Sub", {onnx->Node("Mul", {sum, sum}), squares});
    const std::string y = onnx->Sum(twice, 1, true);
    return onnx->Node("Mul", {y, onnx->Float(0.5f)});
  }

 private:
  // Of the state, where requests stand apart.
  struct Places {
    Real* vectors;  // (requests, width): their columns.
    Real* sums;     // (requests, 2 dim): theirs; in the end those of g * sum, and of g.
    Real* rows;     // (rows, 2 dim): the sums of a row; in the end g * sum, and g.
    int width;      // Of all columns of a request.
    int64_t floats;
  };

  int in_width() const { return inputs()[0].width; }
  int Embedding() const { return inputs()[0].embedding; }
  bool Apart(const Step& step) const {
    return Embedding() > 0 && step.shared != nullptr && step.shared->requests_apart;
  }

  Places Place(const Step& step, Real* state) const {
    if (!Apart(step)) return {};
    Places places = {};
    step.shared->ForApart([&](const SharedSlot& slot) { places.width += slot.dim; });
    const int64_t requests = step.shared->requests;
    places.vectors = state;
    places.sums = state + requests * places.width;
    places.rows = places.sums + requests * 2 * dim_;
    places.floats = requests * (places.width + 2 * dim_) + int64_t{step.batch->rows} * 2 * dim_;
    return places;
  }

  // The first request of a part, and how many it has.
  static std::pair<uint32_t, int> RequestsOf(const SharedSlots& shared, int part) {
    const int first = part * SharedSlots::kRequestsAPart;
    return {first, std::min(SharedSlots::kRequestsAPart, shared.requests - first)};
  }

  Real* RowSums(const OpTile& tile) const {
    return Place(*tile.step, tile.state).rows + tile.first * 2 * dim_;
  }

  // The sums of the tile's rows: where they are kept, or in the scratch.
  Real* SumUp(const OpTile& tile) const {
    const bool apart = Apart(*tile.step);
    Real* sums = apart ? RowSums(tile) : tile.scratch;
    if (apart) {
      const GatheredRows of_requests = {Place(*tile.step, tile.state).sums,
                                        tile.step->batch->request_of_row.data() + tile.first};
      tile.kernels().fill(int64_t{tile.rows} * 2 * dim_, 0, sums);
      tile.fields().add_gathered(tile.rows, 2 * dim_, 1, &of_requests, sums);
    }
    bool add = apart;
    SharedSlots::ForColumns(tile.step->shared, Embedding(), in_width(), [&](int begin, int width) {
      tile.fields().fm_sums(tile.rows, width / dim_, dim_, {tile.in[0] + begin, in_width()}, sums,
                            add);
      add = true;
    });
    return sums;
  }

  const int slots_, dim_;
};

}  // namespace

Value FmSecondOrder(GraphBuilder* graph, Value x, int dim, std::string name) {
  return graph->Append(std::make_unique<FmOp>(std::move(name), x, dim));
}

}  // namespace starling
