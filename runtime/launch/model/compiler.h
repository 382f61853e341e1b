// SPDX-License-Identifier: MIT
// The compiler, for networks in the file whose shapes a launch decides. It is a library of its own, loaded when it is
// first needed.
#ifndef NPURT_COMPILER_H
#define NPURT_COMPILER_H

#include <vector>

#include "runtime/bmodel/source.h"
#include "runtime/launch/error.h"

namespace npurt {

/// A .bmodel for the request's shapes. Thread-safe.
Status compile_network(const npu_compile_request &request, std::vector<uint8_t> &file);

}  // namespace npurt

#endif  // NPURT_COMPILER_H
