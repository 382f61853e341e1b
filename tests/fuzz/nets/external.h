// SPDX-License-Identifier: MIT
// A network's file with its initializers in other files, as exporters and model caches lay them out.
#ifndef NPU_FUZZ_NETS_EXTERNAL_H
#define NPU_FUZZ_NETS_EXTERNAL_H

#include "compiler/graph/ir.h"
#include "tests/fuzz/nets/plan.h"

namespace npu::fuzz {

/// Imports the network with its initializers as external data, behind relative paths, links to files or to folders, or
/// in the objects of a model cache. Returns how its graph differs from `expected`, or the error; empty: it does not, or
/// it has no initializer.
std::string check_external(const Made &made, const graph::Graph &expected);

}  // namespace npu::fuzz

#endif  // NPU_FUZZ_NETS_EXTERNAL_H
