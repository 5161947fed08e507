#include <utility>

#include "base/status.h"
#include "ps/parameter_client.h"

namespace starling {
namespace {

class LocalClient final : public ParameterClient {
 public:
  explicit LocalClient(ParameterStore* store) : store_(store) {}

  void Pull(PullMode mode, std::span<const TableKeys> tables,
            std::span<const std::span<float>> weights, std::span<float> dense,
            ClientDone done) override {
    absl::Status status = store_->PullRows(mode, tables, weights);
    if (status.ok() && !dense.empty()) status = store_->PullDense(dense);
    done(status);
  }

  void Push(const BatchName& name, float lr_scale, std::span<const TableKeys> tables,
            std::span<const std::span<const float>> grads, std::span<const float> dense_grads,
            ClientDone done) override {
    bool applied = false;
    done(store_->Push(name, lr_scale, tables, grads, dense_grads, &applied));
  }

  void Prefetch(std::span<const TableKeys> tables) override { store_->Prefetch(tables); }

 private:
  ParameterStore* const store_;
};

}  // namespace

std::unique_ptr<ParameterClient> NewLocalClient(ParameterStore* store) {
  return std::make_unique<LocalClient>(store);
}

}  // namespace starling
