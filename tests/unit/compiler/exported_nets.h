// SPDX-License-Identifier: MIT
// Quantized networks in the forms in which tools write them.
#ifndef NPU_TEST_COMPILER_EXPORTED_NETS_H
#define NPU_TEST_COMPILER_EXPORTED_NETS_H

#include <cstdint>
#include <span>

#include "tests/unit/compiler/quantized_nets.h"

namespace npu::test {

struct ExportedForm {
  const char *name;
  /// Shapes are the same for all seeds, numbers follow from the seed.
  QuantizedNet (*make)(uint32_t seed);
  /// The types of the nodes that stay in float32, in the order of the file, and of those that the chip has no command
  /// for.
  std::vector<std::string> in_float, on_cpu = {};
};
std::span<const ExportedForm> exported_forms();

}  // namespace npu::test

#endif  // NPU_TEST_COMPILER_EXPORTED_NETS_H
