// SPDX-License-Identifier: MIT
// How a program is chosen: by the code generator, by a record of an earlier search, by a search.
#ifndef NPU_COMPILER_OPTIMIZE_H
#define NPU_COMPILER_OPTIMIZE_H

#include "compiler/api/npuc.h"
#include "compiler/schedule/program.h"

namespace npu::compiler {

/// The best program that is known for a network, or found if the options have a search.
Status choose_program(const Lowered &lowered, const std::vector<graph::Source> &sources, const Options &options,
                      Program &out, SearchReport &report);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_OPTIMIZE_H
