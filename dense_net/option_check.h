// What is wrong with a model's options, and under which key: said once, here
// and beside each builder, for the job's line and for Network::Create alike.
#pragma once

#include <optional>
#include <string>
#include <type_traits>

#include "dense_net/forward.h"

namespace starling {

// Keeps the first thing wrong; later checks then do nothing. A key is a path
// inside the model's options, as "tower.hidden[1]"; empty: the model itself, whose
// name is then the subject of the message.
class OptionCheck {
 public:
  void Range(const std::string& key, double value, double least, double most);
  void AtLeast(const std::string& key, double value, double least);
  void Above(const std::string& key, double value, double bound);
  // least <= value < bound
  void Below(const std::string& key, double value, double least, double bound);
  void Require(bool ok, const std::string& key, const std::string& message);
  // Each of a list of widths.
  template <typename List>
  void Widths(const std::string& key, const List& widths) {
    for (int i = 0; i < widths.size(); ++i) {
      Range(key + "[" + std::to_string(i) + "]", widths[i], 1, kWidthMax);
    }
  }
  // The fields of MlpOptions, or those that other options have of them; `at` is their path.
  template <typename Options>
  void Deep(const Options& options, const std::string& at = "") {
    const std::string prefix = at.empty() ? "" : at + ".";
    Widths(prefix + "hidden", options.hidden());
    Below(prefix + "dropout", options.dropout(), 0, 1);
    if constexpr (std::is_same_v<Options, MlpOptions>) Mlp(options, prefix);
  }
  const std::optional<BadModelOption>& bad() const { return bad_; }

  static constexpr int kWidthMax = 65536;

 private:
  void Mlp(const MlpOptions& options, const std::string& prefix);
  // `message` without its subject, which is the last key of the path.
  void Fail(const std::string& key, const std::string& message);

  std::optional<BadModelOption> bad_;
};

}  // namespace starling
