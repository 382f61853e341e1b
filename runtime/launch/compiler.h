// SPDX-License-Identifier: MIT
// The compiler, for networks in the file whose shapes a launch decides. It is a library of its own, loaded when it is
// first needed.
#ifndef NPURT_COMPILER_H
#define NPURT_COMPILER_H

#include <span>
#include <vector>

#include "error.h"
#include "source.h"

namespace npurt {

/// Looks at the header of a stage's binary_ir; `network` is what follows it.
Reason read_source(std::span<const uint8_t> binary, std::span<const uint8_t> &network);

/// A .bmodel for the request's shapes. Thread-safe.
Reason compile_network(const npu_compile_request &request, std::vector<uint8_t> &file);

}  // namespace npurt

#endif  // NPURT_COMPILER_H
