// SPDX-License-Identifier: MIT
// Tells the bodies of If, Loop and Scan from the network.
#ifndef NPU_ORT_BODY_H
#define NPU_ORT_BODY_H

#include "ort/ep/ort_api.h"

namespace npu::ort {

/// ONNX Runtime asks for the nodes of each body before it asks for those of the network around it, and mostly does not
/// name the node that a body belongs to. A graph that is called as the network, and has nothing that only a body has,
/// counts as the network.
bool is_body(Ort::ConstGraph graph);

}  // namespace npu::ort

#endif  // NPU_ORT_BODY_H
