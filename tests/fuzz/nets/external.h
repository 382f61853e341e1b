// SPDX-License-Identifier: MIT
// A network's file with its initializers in other files, as exporters and model caches lay them out.
#ifndef NPU_FUZZ_NETS_EXTERNAL_H
#define NPU_FUZZ_NETS_EXTERNAL_H

#include "compiler/graph/ir.h"
#include "tests/fuzz/nets/plan.h"

namespace npu::fuzz {

/// What the network is when its initializers are external data behind relative paths, links to files or to folders, or
/// in the objects of a model cache: with another graph than `expected`, or refused, it is a finding. Empty: it is the
/// same, or has no initializer.
std::string check_external(const Made &made, const graph::Graph &expected);

}  // namespace npu::fuzz

#endif  // NPU_FUZZ_NETS_EXTERNAL_H
