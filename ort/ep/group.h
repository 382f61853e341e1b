// SPDX-License-Identifier: MIT
// A part of a graph that has been compiled, as it is kept: in a session, in an EPContext node, in the cache.
#ifndef NPU_ORT_GROUP_H
#define NPU_ORT_GROUP_H

// GCC forgets the header's "#pragma once" where it is in a precompiled one.
#ifndef ORT_API_VERSION
#include <onnxruntime_c_api.h>
#endif

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"

namespace npu::ort {

/// An input or output of the compiled network, and which one it is of the node that stands for it.
struct Port {
  uint32_t place = 0;
  std::string name;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
};

struct Group {
  std::string name;
  std::vector<Port> inputs, outputs;
  /// The network as ONNX, for shapes that are known when it runs; else the .bmodel. The other one is empty.
  std::vector<uint8_t> network, bmodel;
};

/// Bytes that start with their own checksum.
std::vector<uint8_t> pack(const Group &group);
/// Bytes of anyone: an error says what is wrong with them.
Status unpack(const void *bytes, size_t size, Group &out);

/// SHA-256, in hexadecimal digits.
std::string digest(const void *bytes, size_t size);

}  // namespace npu::ort

#endif  // NPU_ORT_GROUP_H
