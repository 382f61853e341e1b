// SPDX-License-Identifier: MIT
// On how many cores a network is computed.
#ifndef NPU_COMPILER_CORES_H
#define NPU_COMPILER_CORES_H

#include "compiler/api/npuc.h"
#include "compiler/schedule/program.h"

namespace npu::compiler {

/// A program and the sources that its commands name.
struct Made {
  Program program;
  std::vector<graph::Source> sources;
};

/// The program of one core from a schedule that was found, if the options have one, or the code generator's. Its
/// coefficients begin at `coeff_bytes`.
Status make_scheduled(const graph::Graph &graph, const Options &options, int64_t coeff_bytes, Made &out,
                      SearchReport &report);

/// Makes the program with the fewest cycles on as many cores as the options allow; its coefficients begin at
/// `coeff_bytes`. The report gets what its bounds need, and what a search found if its program is the one that is
/// taken.
Status make_on_cores(const graph::Graph &graph, const Options &options, int64_t coeff_bytes, Made &out, Report &report);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_CORES_H
