// SPDX-License-Identifier: MIT
// Which parts of a graph the NPU takes.
#ifndef NPU_ORT_CAPABILITY_H
#define NPU_ORT_CAPABILITY_H

#include <memory>

#include "ort/ep/graph.h"
#include "ort/ep/kernel.h"

namespace npu::ort {

/// A part that the NPU takes.
struct Taken {
  Part part;
  std::shared_ptr<Group> group;  ///< places are not set
};

struct Capability {
  std::vector<Taken> taken;
  /// What runs elsewhere, and why: a text a node.
  std::vector<std::string> refused;
};

/// `captures`: ONNX Runtime gives a part the tensors that only bodies in it read.
Status find_capability(const GraphView &graph, const Options &options, bool captures, Capability &out);

/// Compiles a part. With open dimensions that is a trial, and the group has the network; `on_chip` is false where the
/// chip would have nothing to do.
Status make_group(const GraphView &graph, const Part &part, const Options &options, Group &out, bool &on_chip);

}  // namespace npu::ort

#endif  // NPU_ORT_CAPABILITY_H
