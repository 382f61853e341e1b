// SPDX-License-Identifier: MIT
// Names of values for tables and reports.
#ifndef NPU_QUANTIZE_NAMES_H
#define NPU_QUANTIZE_NAMES_H

#include "compiler/graph/ir.h"

namespace npu::quantize {

/// One for each value that is no constant: its own, or "NODE/2" for the second one without that a node of the file has
/// led to. The same for all shapes of a network. Constants have none.
std::vector<std::string> tensor_names(const graph::Graph &graph);

}  // namespace npu::quantize

#endif  // NPU_QUANTIZE_NAMES_H
