// SPDX-License-Identifier: MIT
// Graphs as files, for people who want to see what the compiler does.
#ifndef NPU_COMPILER_DUMP_H
#define NPU_COMPILER_DUMP_H

#include "compiler/api/npuc.h"
#include "compiler/graph/ir.h"

namespace npu::compiler {

/// Writes a graph as NN-NAME.txt and as a picture, NN-NAME.dot, if the options have a folder.
Status dump(const graph::Graph &graph, const Options &options, size_t number, const std::string &name);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_DUMP_H
