// SPDX-License-Identifier: MIT
// Distinguishes the bodies of If, Loop and Scan from the network.
#ifndef NPU_ORT_BODY_H
#define NPU_ORT_BODY_H

#include "ort/ep/ort_api.h"

namespace npu::ort {

/// ONNX Runtime partitions each body before the graph around it. `interface` is the version of its interface: 23 does
/// not give the node that a body belongs to, and there a graph counts as the network if it has the network's name and
/// nothing that only a body has.
bool is_body(Ort::ConstGraph graph, uint32_t interface);

}  // namespace npu::ort

#endif  // NPU_ORT_BODY_H
