// SPDX-License-Identifier: MIT
// What a session asks of the provider.
#ifndef NPU_ORT_OPTIONS_H
#define NPU_ORT_OPTIONS_H

#include <map>
#include <optional>
#include <vector>

#include "ort/ep/ort_api.h"

namespace npu::ort {

struct Options {
  std::optional<int> device;  ///< number of the card
  bool dynamic = true;        ///< takes nodes whose shapes are known when they run
  bool cpu = true;            ///< the CPU may compute what was given to the NPU
  std::string cache;          ///< folder in which compiled networks are kept; empty: none
  /// Those that the compiler understands (compiler/api/npuc_c.h), as they are.
  std::map<std::string, std::string> compiler;

  bool context = false;        ///< the session makes a model of compiled networks
  bool context_embed = false;  ///< they are in the model, not in files beside it
  std::string context_path;    ///< of that model; empty: beside the session's
  std::string context_prefix;  ///< of the names of its nodes

  /// Equal for equal compilation.
  std::string text() const;
};

/// Reads the entries of a session's configuration that are meant for this provider. An error names the option.
Status read_options(const std::vector<std::pair<std::string, std::string>> &entries, Options &out);

}  // namespace npu::ort

#endif  // NPU_ORT_OPTIONS_H
