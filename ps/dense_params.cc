#include "ps/dense_params.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "ps/checked_bytes.h"

namespace starling {
namespace {

constexpr absl::string_view kMagic = "STLDENSE";
constexpr uint32_t kVersion = 2;

absl::string_view AsBytes(std::span<const float> floats) {
  return {reinterpret_cast<const char*>(floats.data()), floats.size_bytes()};
}

absl::Status Mismatch(const std::string& file, absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat(file, ": ", what, "; it belongs to another model or optimizer"));
}

}  // namespace

absl::Status CheckDense(const StoreConfig& config) {
  std::set<std::string> names;
  for (const DenseParam& param : config.dense()) {
    if (param.name().empty() || !names.insert(param.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("dense parameter \"", param.name(), "\": its name is empty or there twice"));
    }
    if (param.size() <= 0 || param.size() > INT32_MAX / 4) {
      return absl::InvalidArgumentError(
          absl::StrCat("dense parameter \"", param.name(), "\" has size ", param.size()));
    }
    if (!param.statistic()) {
      RETURN_IF_ERROR(
          Annotate(Optimizer::Create(config.dense_optimizer()).status(), "dense_optimizer"));
    }
  }
  return absl::OkStatus();
}

DenseParams::DenseParams(const StoreConfig& config) : options_(config.dense_optimizer()) {
  int64_t offset = 0;
  for (const DenseParam& param : config.dense()) {
    Tensor tensor{.param = param, .optimizer = nullptr, .offset = offset};
    if (!param.statistic()) {
      auto& optimizer = param.decay() ? decayed_ : undecayed_;
      if (optimizer == nullptr) {
        optimizer = *Optimizer::Create(param.decay() ? options_ : WithoutDecay(options_));
      }
      tensor.optimizer = optimizer.get();
      tensor.state.resize(optimizer->StateSize(static_cast<int>(param.size())));
      optimizer->InitState(tensor.state);
    }
    offset += param.size();
    tensors_.push_back(std::move(tensor));
  }
  values_.resize(offset);
}

void DenseParams::Get(std::span<float> values) const {
  std::lock_guard lock(mu_);
  std::copy(values_.begin(), values_.end(), values.begin());
}

void DenseParams::Set(std::span<const float> values) {
  std::lock_guard lock(mu_);
  std::copy(values.begin(), values.end(), values_.begin());
}

void DenseParams::Apply(float lr_scale, std::span<const float> grads) {
  std::lock_guard lock(mu_);
  for (Tensor& tensor : tensors_) {
    auto values = std::span(values_).subspan(tensor.offset, tensor.param.size());
    auto grad = grads.subspan(tensor.offset, tensor.param.size());
    if (tensor.param.statistic()) {
      for (size_t i = 0; i < values.size(); ++i) values[i] += grad[i];
    } else {
      tensor.optimizer->Step(lr_scale, values, tensor.state, grad);
    }
  }
  ++steps_;
}

const DenseParams::Tensor* DenseParams::Find(absl::string_view name) const {
  for (const Tensor& tensor : tensors_) {
    if (tensor.param.name() == name) return &tensor;
  }
  return nullptr;
}

std::string DenseParams::Encode() const {
  std::lock_guard lock(mu_);
  DenseFileHeader header;
  *header.mutable_optimizer() = options_;
  header.set_steps(steps_);
  for (const Tensor& tensor : tensors_) *header.add_params() = tensor.param;
  std::string text = header.SerializeAsString();
  CheckedWriter out(kMagic, kVersion);
  out.Put<uint32_t>(static_cast<uint32_t>(text.size()));
  out.PutBytes(text);
  for (const Tensor& tensor : tensors_) {
    out.PutBytes(AsBytes(std::span(values_).subspan(tensor.offset, tensor.param.size())));
    out.PutBytes(AsBytes(tensor.state));
  }
  return std::move(out).Finish();
}

absl::Status DenseParams::Decode(absl::string_view bytes, const std::string& file) {
  ASSIGN_OR_RETURN(absl::string_view payload, OpenChecked(bytes, kMagic, kVersion, file));
  CheckedReader in(payload);
  DenseFileHeader header;
  absl::string_view text = in.GetBytes(in.Get<uint32_t>());
  if (!in.ok() || !header.ParseFromArray(text.data(), static_cast<int>(text.size()))) {
    return absl::DataLossError(absl::StrCat(file, ": the header cannot be read"));
  }
  if (header.optimizer().rule_case() != options_.rule_case()) {
    return Mismatch(file, absl::StrCat("written by optimizer ", OptimizerName(header.optimizer()),
                                       ", not ", OptimizerName(options_)));
  }
  std::set<std::string> seen;
  std::vector<float> values(values_.size());
  std::vector<std::vector<float>> states(tensors_.size());
  for (const DenseParam& param : header.params()) {
    const Tensor* tensor = Find(param.name());
    if (tensor == nullptr || !seen.insert(param.name()).second) {
      return Mismatch(file,
                      absl::StrCat("has a parameter \"", param.name(), "\" that is not expected"));
    }
    if (param.size() != tensor->param.size() || param.statistic() != tensor->param.statistic()) {
      return Mismatch(file, absl::StrCat("parameter \"", param.name(), "\" has size ", param.size(),
                                         ", not ", tensor->param.size(), ", or another kind"));
    }
    absl::string_view value = in.GetBytes(param.size() * sizeof(float));
    absl::string_view state = in.GetBytes(tensor->state.size() * sizeof(float));
    if (!in.ok()) break;
    std::memcpy(values.data() + tensor->offset, value.data(), value.size());
    states[tensor - tensors_.data()].resize(tensor->state.size());
    if (!state.empty())
      std::memcpy(states[tensor - tensors_.data()].data(), state.data(), state.size());
  }
  RETURN_IF_ERROR(Annotate(in.Finish(), file));
  for (const Tensor& tensor : tensors_) {
    if (!seen.contains(tensor.param.name())) {
      return Mismatch(file, absl::StrCat("lacks parameter \"", tensor.param.name(), "\""));
    }
  }
  std::lock_guard lock(mu_);
  values_ = std::move(values);
  for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].state = std::move(states[i]);
  steps_ = header.steps();
  return absl::OkStatus();
}

}  // namespace starling
