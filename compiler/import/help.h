// SPDX-License-Identifier: MIT
// What would help where a network, or a node of it, cannot be compiled.
#ifndef NPU_GRAPH_HELP_H
#define NPU_GRAPH_HELP_H

#include <string>
#include <string_view>

#include "compiler/graph/obstacle.h"

namespace npu::graph {

/// A sentence or two; empty: nobody knows.
std::string help_for(Obstacle obstacle);

/// The same for an operator that is not supported.
std::string help_for_operator(std::string_view domain, std::string_view type);

}  // namespace npu::graph

#endif  // NPU_GRAPH_HELP_H
