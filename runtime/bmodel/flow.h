// SPDX-License-Identifier: MIT
// Stages of several sub-networks: which tensors there are, what each sub-network does with them, and which comes next.
#ifndef NPU_BMODEL_FLOW_H
#define NPU_BMODEL_FLOW_H

#include "runtime/bmodel/container.h"
#include "runtime/bmodel/cpu_param.h"

namespace npu::bmodel {

using TensorList = flatbuffers::Vector<flatbuffers::Offset<fb::Tensor>>;

inline constexpr size_t kMaxSubNets = 256, kMaxFlowTensors = 65536;

enum class SubNetMode : int32_t { kNpu = 0, kCpu = 1, kMerge = 2, kSwitch = 3 };

/// A tensor of a stage. Its name in the sub-networks is unique.
struct FlowTensor {
  const fb::Tensor *tensor = nullptr;
  int input = -1, output = -1;  ///< number among the stage's inputs or outputs, or -1
};

/// A sub-network. Tensors and nodes are named by their index in the Flow.
struct FlowNode {
  static constexpr int kEnd = -1;

  SubNetMode mode = SubNetMode::kNpu;
  int32_t id = 0;  ///< the file's
  std::vector<uint32_t> inputs, outputs;
  int next = kEnd;     ///< of a switch: if its condition (the last input) is zero
  int if_true = kEnd;  ///< of a switch
  Program program{};   ///< NPU
  int32_t op = 0;      ///< CPU: NPU_CPU_
  npu_cpu_param param{};
  std::span<const uint8_t> graph;  ///< CPU, NPU_CPU_GRAPH: the bytes behind the parameters
  std::vector<std::vector<uint32_t>>
      from;                  ///< merge: for each output the tensors that it may come from; switch: one each
  std::vector<bool> branch;  ///< switch: for each output, of which branch it is
};

/// Runs from nodes[0] to a node with next kEnd.
struct Flow {
  std::vector<FlowTensor> tensors;
  std::vector<FlowNode> nodes;
};

/// Whether this chip's runtime can have such a stage at all.
Status check_supported(const Container &container, const fb::Net &net, const fb::NetParameter &stage);

/// Whether a network of the file is a step of another one.
bool is_step(const fb::Net &net);

/// Whether a stage is more than one program.
bool has_flow(const fb::NetParameter &stage);

/// Reads and checks a stage's sub-networks: no loop, every tensor written once and before it is read on every path,
/// every output written at each end, programs as read_program() checks them. Parameters of CPU operators are checked by
/// who runs them, except for their layout. An error names the sub-network.
Status read_flow(const Container &container, const fb::NetParameter &stage, Flow &flow);

/// A sub-network's program, against its own tensors.
Status read_sub_program(const Container &container, const fb::NetParameter &stage, const fb::SubNet &sub,
                        Program &program);

/// Each tensor has a name, a type and a shape that the runtime can use; there is at least one.
Status check_tensors(const TensorList *list, const char *what);
/// Of a checked tensor, as it is stored: a batch that shares words is filled up.
uint64_t tensor_bytes(const fb::Tensor &tensor);

}  // namespace npu::bmodel

#endif  // NPU_BMODEL_FLOW_H
