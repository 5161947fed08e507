#include "serving/predictor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "dense_net/forward.h"

namespace starling {
namespace {

// Rows scored at a time: bounds the memory of a call. A row's score does not
// depend on it (dense_net/forward.h).
constexpr int64_t kChunkRows = 4096;

// What one call needs and the next can use again.
struct Scratch {
  Batch batch;
  std::vector<std::vector<float>> rows;  // By table: (U, width).
  std::vector<std::span<const float>> row_spans;
  std::unique_ptr<Workspace> workspace;
  std::vector<float> scores;
  ThreadPool pool{1};  // Calls run side by side; one call stays on its thread.
};

class BundlePredictor : public Predictor {
 public:
  BundlePredictor(std::unique_ptr<Bundle> bundle, std::unique_ptr<FeatureCompiler> compiler,
                  std::unique_ptr<Network> network)
      : bundle_(std::move(bundle)), compiler_(std::move(compiler)), network_(std::move(network)) {
    for (const OutputSpec& output : network_->outputs()) outputs_.push_back(output.name);
  }

  const Bundle& bundle() const override { return *bundle_; }
  const std::vector<std::string>& outputs() const override { return outputs_; }

  absl::StatusOr<std::vector<float>> Predict(const ColumnBatch& columns,
                                             std::vector<BadRow>* bad) const override {
    std::vector<float> out(columns.rows * outputs_.size(), std::numeric_limits<float>::quiet_NaN());
    std::unique_ptr<Scratch> scratch = Borrow();
    absl::Status status;
    for (int64_t begin = 0; begin < columns.rows && status.ok(); begin += kChunkRows) {
      int64_t end = std::min(columns.rows, begin + kChunkRows);
      status = PredictChunk(columns, begin, end, scratch.get(), bad, out);
    }
    GiveBack(std::move(scratch));
    RETURN_IF_ERROR(status);
    return out;
  }

 private:
  absl::Status PredictChunk(const ColumnBatch& columns, int64_t begin, int64_t end,
                            Scratch* scratch, std::vector<BadRow>* bad,
                            std::span<float> out) const {
    std::vector<int64_t> rows(end - begin);
    std::iota(rows.begin(), rows.end(), begin);
    std::vector<BadRow> chunk_bad;
    RETURN_IF_ERROR(compiler_->Compile(columns, rows, false, &scratch->batch, &chunk_bad));
    if (bad == nullptr && !chunk_bad.empty()) {
      const BadRow& first = chunk_bad.front();
      return absl::InvalidArgumentError(
          absl::StrCat("row ", first.row, ", column ", first.column, ": ", first.reason));
    }
    RETURN_IF_ERROR(Score(scratch));
    std::vector<bool> is_bad(end - begin);
    for (BadRow& row : chunk_bad) {
      is_bad[row.row - begin] = true;
      bad->push_back(std::move(row));
    }
    const auto width = static_cast<int64_t>(outputs_.size());
    auto next = scratch->scores.begin();
    for (int64_t i = 0; i < end - begin; ++i) {
      if (is_bad[i]) continue;
      std::copy_n(next, width, out.begin() + (begin + i) * width);
      next += width;
    }
    return absl::OkStatus();
  }

  absl::Status Score(Scratch* s) const {
    s->scores.resize(s->batch.rows * outputs_.size());
    if (s->batch.rows == 0) return absl::OkStatus();
    for (size_t t = 0; t < s->batch.tables.size(); ++t) {
      const RowSource& table = bundle_->table(static_cast<int>(t));
      s->rows[t].resize(s->batch.tables[t].ids.size() * table.width());
      RETURN_IF_ERROR(table.Lookup(s->batch.tables[t].ids, s->rows[t]));
      s->row_spans[t] = s->rows[t];
    }
    return network_->Score(s->batch, s->row_spans, bundle_->dense(), &s->pool, s->workspace.get(),
                           s->scores);
  }

  std::unique_ptr<Scratch> Borrow() const {
    {
      absl::MutexLock lock(&mu_);
      if (!free_.empty()) {
        std::unique_ptr<Scratch> scratch = std::move(free_.back());
        free_.pop_back();
        return scratch;
      }
    }
    auto scratch = std::make_unique<Scratch>();
    scratch->rows.resize(bundle_->spec().tables.tables_size());
    scratch->row_spans.resize(scratch->rows.size());
    scratch->workspace = network_->NewWorkspace();
    return scratch;
  }

  void GiveBack(std::unique_ptr<Scratch> scratch) const {
    absl::MutexLock lock(&mu_);
    free_.push_back(std::move(scratch));
  }

  const std::unique_ptr<Bundle> bundle_;
  const std::unique_ptr<FeatureCompiler> compiler_;
  const std::unique_ptr<Network> network_;
  std::vector<std::string> outputs_;  // Constant after construction.

  mutable absl::Mutex mu_;
  // As many as calls were ever under way at once.
  mutable std::vector<std::unique_ptr<Scratch>> free_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<Predictor>> Predictor::Create(std::unique_ptr<Bundle> bundle) {
  const BundleSpec& spec = bundle->spec();
  ASSIGN_OR_RETURN(auto compiler, FeatureCompiler::Create(spec.features));
  ASSIGN_OR_RETURN(auto network, Network::Create(spec.graph, NetworkOptions()));
  if (network->param_floats() != static_cast<int64_t>(bundle->dense().size())) {
    return absl::DataLossError(absl::StrCat("dense.bin holds ", bundle->dense().size(),
                                            " floats; graph.json needs ", network->param_floats()));
  }
  return std::make_unique<BundlePredictor>(std::move(bundle), std::move(compiler),
                                           std::move(network));
}

}  // namespace starling
