// SPDX-License-Identifier: MIT
// Constants of parts for the CPU: equal ones are in the process's memory once.
#ifndef NPURT_SHARED_CONSTANTS_H
#define NPURT_SHARED_CONSTANTS_H

#include "runtime/cpu/host_graph.h"

namespace npurt {

/// Replaces constants of the graph by equal ones of other graphs of the process. A dynamic network has a graph for each
/// set of shapes, and an embedding table is the same in all of them. Thread-safe.
void share_constants(npu::cpu::HostGraph &graph);

}  // namespace npurt

#endif  // NPURT_SHARED_CONSTANTS_H
