#include "dense_net/option_check.h"

#include <limits>

#include "absl/strings/str_cat.h"

namespace starling {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int kBlocksMax = 64;

}  // namespace

void OptionCheck::Range(const std::string& key, double value, double least, double most) {
  if (value >= least && value <= most) return;
  Fail(key, most == kInf ? absl::StrCat("must be at least ", least)
                         : absl::StrCat("must be in ", least, "..", most));
}

void OptionCheck::AtLeast(const std::string& key, double value, double least) {
  Range(key, value, least, kInf);
}

void OptionCheck::Above(const std::string& key, double value, double bound) {
  if (!(value > bound)) Fail(key, absl::StrCat("must be more than ", bound));
}

void OptionCheck::Below(const std::string& key, double value, double least, double bound) {
  if (value >= least && value < bound) return;
  Fail(key, absl::StrCat("must be at least ", least, " and less than ", bound));
}

void OptionCheck::Require(bool ok, const std::string& key, const std::string& message) {
  if (!ok && !bad_) bad_ = BadModelOption{key, message};
}

void OptionCheck::Fail(const std::string& key, const std::string& message) {
  Require(false, key, absl::StrCat(key.substr(key.rfind('.') + 1), " ", message));
}

void OptionCheck::Mlp(const MlpOptions& options, const std::string& prefix) {
  Require(!options.batch_norm() || !options.layer_norm(), prefix + "layer_norm",
          "batch_norm and layer_norm: choose one");
  if (!options.has_residual()) return;
  const ResidualOptions& residual = options.residual();
  Range(prefix + "residual.blocks", residual.blocks(), 1, kBlocksMax);
  Range(prefix + "residual.factor", residual.factor(), 1, kBlocksMax);
  Range(prefix + "residual.groups", residual.groups(), 1, 1024);
  if (residual.kind() != ResidualOptions::GROUPED || residual.groups() < 1) return;
  for (int width : options.hidden()) {
    Require(width % residual.groups() == 0, prefix + "residual.groups",
            absl::StrCat("groups must divide every width of hidden, and ", residual.groups(),
                         " does not divide ", width));
  }
}

}  // namespace starling
