#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/optimizers/rule.h"

// Every rule: the file base/optimizers/<name>.cc defines Make<Name>, and the
// oneof of base/optimizer.proto holds its options.
#define STARLING_OPTIMIZERS(RULE) \
  RULE(Sgd)                       \
  RULE(Momentum)                  \
  RULE(Adagrad)                   \
  RULE(RowwiseAdagrad)            \
  RULE(GroupAdagrad)              \
  RULE(Adam)                      \
  RULE(Adamw)                     \
  RULE(Lamb)                      \
  RULE(Rmsprop)                   \
  RULE(Adadelta)                  \
  RULE(Ftrl)                      \
  RULE(GroupFtrl)                 \
  RULE(Count)

namespace starling {

#define STARLING_DECLARE(Name) MakeRule Make##Name;
STARLING_OPTIMIZERS(STARLING_DECLARE)
#undef STARLING_DECLARE

namespace {

struct Entry {
  OptimizerOptions::RuleCase rule;
  MakeRule* make;
};
#define STARLING_ENTRY(Name) {OptimizerOptions::k##Name, Make##Name},
constexpr Entry kRules[] = {STARLING_OPTIMIZERS(STARLING_ENTRY)};
#undef STARLING_ENTRY

// The rule that the options name, or null with `bad` set.
std::unique_ptr<Optimizer> Make(const OptimizerOptions& options, InstructionSet set,
                                std::optional<BadOption>* bad) {
  OptionChecks common(""), own(OptimizerName(options) + ".");
  common.AtLeast("l2", options.l2(), 0);
  common.AtLeast("clip", options.clip(), 0);
  std::unique_ptr<Optimizer> made;
  for (const Entry& entry : kRules) {
    if (entry.rule == options.rule_case()) made = entry.make(options, &own, set);
  }
  if (made == nullptr) {
    *bad = BadOption{"", absl::StrCat("no optimizer; name one of ", OptimizerNames())};
  } else if (common.bad() || own.bad()) {
    *bad = common.bad() ? common.bad() : own.bad();
    made = nullptr;
  }
  return made;
}

}  // namespace

double OptionChecks::Check(bool ok, const char* key, double value, std::string message) {
  if (std::isinf(value)) message = "must be finite";
  if ((!ok || std::isinf(value)) && !bad_) bad_ = BadOption{rule_ + key, std::move(message)};
  return value;
}

double OptionChecks::Above(const char* key, double value, double bound) {
  return Check(static_cast<float>(value) > bound, key, value,
               absl::StrCat("must be more than ", bound));
}

double OptionChecks::AtLeast(const char* key, double value, double bound) {
  return Check(value >= bound, key, value, absl::StrCat("must be at least ", bound));
}

double OptionChecks::Fraction(const char* key, double value) {
  return Check(value >= 0 && static_cast<float>(value) < 1, key, value,
               "must be at least 0 and less than 1");
}

double OptionChecks::Finite(const char* key, double value) {
  return Check(!std::isnan(value), key, value, "must be a number");
}

InstructionSet BestInstructionSet() {
  static const bool avx2 = __builtin_cpu_supports("avx2");
  return avx2 ? InstructionSet::kAvx2 : InstructionSet::kBase;
}

absl::StatusOr<std::unique_ptr<const Optimizer>> Optimizer::Create(const OptimizerOptions& options,
                                                                   InstructionSet set) {
  std::optional<BadOption> bad;
  std::unique_ptr<Optimizer> made = Make(options, set, &bad);
  if (made == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(bad->key, bad->key.empty() ? "" : " ", bad->message));
  }
  made->name_ = OptimizerName(options);
  made->l2_ = static_cast<float>(options.l2());
  made->clip_ = options.clip();
  return made;
}

// Sums in the order of the gradient, in double.
float Optimizer::ClipScale(std::span<const float> grad) const {
  double squares = 0;
  for (float g : grad) squares += static_cast<double>(g) * g;
  const double norm = std::sqrt(squares);
  return norm > clip_ ? static_cast<float>(clip_ / norm) : 1.0f;
}

std::optional<BadOption> FindBadOption(const OptimizerOptions& options) {
  std::optional<BadOption> bad;
  Make(options, InstructionSet::kBase, &bad);
  return bad;
}

std::string OptimizerName(const OptimizerOptions& options) {
  const auto* rules = OptimizerOptions::descriptor()->FindOneofByName("rule");
  const auto* field = options.GetReflection()->GetOneofFieldDescriptor(options, rules);
  return field == nullptr ? "none" : field->name();
}

std::string OptimizerNames() {
  const auto* rules = OptimizerOptions::descriptor()->FindOneofByName("rule");
  std::vector<std::string> names;
  for (int i = 0; i < rules->field_count(); ++i) names.push_back(rules->field(i)->name());
  return absl::StrJoin(names, ", ");
}

OptimizerOptions WithoutDecay(const OptimizerOptions& options) {
  OptimizerOptions without = options;
  without.clear_l2();
  if (without.has_adamw()) without.mutable_adamw()->set_weight_decay(0);
  if (without.has_lamb()) without.mutable_lamb()->set_weight_decay(0);
  return without;
}

}  // namespace starling
