// SPDX-License-Identifier: MIT
// Runs compiled programs on the chip model, without runtime, library or driver.
#ifndef NPU_TEST_COMPILER_CHIP_H
#define NPU_TEST_COMPILER_CHIP_H

#include "compiler/api/npuc.h"
#include "compiler/graph/ir.h"
#include "tests/unit/model/machine.h"

namespace npu::test {

struct ChipResult {
  std::string error;  ///< empty: the program has ended well
  std::vector<std::vector<float>> outputs;
  uint64_t cycles = 0;
};

/// Memory that a program must not rely on is filled with NaNs first: activations and outputs. `lmem`: of the chip.
ChipResult try_on_chip(const bmodel::StageDesc &stage, const std::vector<std::vector<float>> &inputs, int64_t lmem);
/// The same; a program that fails, fails the test.
ChipResult run_on_chip(const bmodel::StageDesc &stage, const std::vector<std::vector<float>> &inputs, int64_t lmem);

/// What the importer makes of a file; a failure fails the test.
graph::Graph import_graph(const std::string &file);

/// The lines of its text that are nodes and outputs.
std::string node_lines(const graph::Graph &graph);

/// A whole stage: its program, or its sub-networks one after another, those of the CPU by runtime/cpu. Tensors are
/// those of the .bmodel. `cycles` is the sum of the programs'.
struct StageResult {
  std::string error;
  std::vector<graph::Tensor> outputs;
  uint64_t cycles = 0;
};
StageResult run_stage(const bmodel::StageDesc &stage, const std::vector<graph::Tensor> &inputs, int64_t lmem);

/// Local memory that all programs of a stage fit in, whole pages.
int64_t lmem_of(const bmodel::StageDesc &stage);

}  // namespace npu::test

#endif  // NPU_TEST_COMPILER_CHIP_H
