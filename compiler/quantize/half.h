// SPDX-License-Identifier: MIT
// How near a network whose real numbers are stored in 16 bits is to what it was in float32.
#ifndef NPU_QUANTIZE_HALF_H
#define NPU_QUANTIZE_HALF_H

#include "compiler/graph/ir.h"
#include "compiler/quantize/options.h"
#include "compiler/quantize/result.h"

namespace npu::quantize {

/// Runs samples through a network and through what use_half() makes of it with `options.reals`. A layer of the result
/// is a node of the file whose result is stored in 16 bits. Without `options.compare` the samples are opened, no more.
/// Error: samples that are missing or wrong.
Status compare_half(const graph::Graph &graph, const Options &options, Result &out);

}  // namespace npu::quantize

#endif  // NPU_QUANTIZE_HALF_H
