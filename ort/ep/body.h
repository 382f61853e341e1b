// SPDX-License-Identifier: MIT
// Tells the bodies of If, Loop and Scan from the network.
#ifndef NPU_ORT_BODY_H
#define NPU_ORT_BODY_H

#include "ort/ep/ort_api.h"

namespace npu::ort {

/// ONNX Runtime partitions each body before the graph around it, and version 1.23 does not give the node that a body
/// belongs to. A graph without one counts as the network if it has its name and nothing that only a body has.
bool is_body(Ort::ConstGraph graph);

}  // namespace npu::ort

#endif  // NPU_ORT_BODY_H
