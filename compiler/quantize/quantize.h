// SPDX-License-Identifier: MIT
// A float32 network becomes one of integers, by what samples of its inputs make of its tensors.
#ifndef NPU_QUANTIZE_QUANTIZE_H
#define NPU_QUANTIZE_QUANTIZE_H

#include "compiler/graph/ir.h"
#include "compiler/quantize/options.h"
#include "compiler/quantize/result.h"

namespace npu::quantize {

/// Whether a network has integers with scales already.
bool has_integers(const graph::Graph &graph);

/// Makes nodes that quantize and weights of integers of a network in float32; fuse_quantized() makes operators of
/// integers of that. Nodes of known meaning have been joined before: normalizations, poolings of reductions.
Status quantize(graph::Graph &graph, const Options &options, Result &out);

}  // namespace npu::quantize

#endif  // NPU_QUANTIZE_QUANTIZE_H
