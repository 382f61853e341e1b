// SPDX-License-Identifier: MIT
// What there is to tell of a card: one table, which --json, --query and -q are made from.
#ifndef NPU_SMI_VALUES_H
#define NPU_SMI_VALUES_H

#include <nlohmann/json.hpp>
#include <vector>

#include "tools/npu-smi/report.h"

namespace npu::smi {

using Json = nlohmann::ordered_json;

struct Value {
  const char *member;   ///< its name in --json; nullptr: it is not there
  const char *column;   ///< its name in --query; nullptr: it is not there
  const char *section;  ///< where it stands in -q: a heading, or "" for the card itself; nullptr: it is not there
  const char *label;    ///< its name in -q
  const char *unit;     ///< in --query; "" for numbers and text
  const char *help;     ///< meaning, for --help
  /// A number, a text, or an array with a number for each core. Sizes are in bytes, whatever the unit.
  Json (*get)(const Card &card);
};

/// Values of one section of -q stand together.
const std::vector<Value> &values();

/// As --query has it: "64" MiB, "42500" mC, "50 0" for two cores.
std::string in_column(const Value &value, const Card &card);
/// As -q has it, for people: "64 MiB", "42.5 C".
std::string in_words(const Value &value, const Card &card);

}  // namespace npu::smi

#endif  // NPU_SMI_VALUES_H
