// SPDX-License-Identifier: MIT
// How a stage that is more than one program runs: its sub-networks, the tensors between them, and the order.
#ifndef NPURT_PLAN_H
#define NPURT_PLAN_H

#include <memory>

#include "cpuop.h"
#include "unit.h"

namespace npurt {

/// Constant once it is made.
struct Plan {
  static constexpr int kEnd = npu::bmodel::FlowNode::kEnd;
  static constexpr uint64_t kAlign = 4096;

  struct Slot {
    TensorInfo info;
    int input = -1, output = -1;  ///< number among the stage's, or -1
    uint64_t offset = 0;          ///< in the launch's activation memory, for what is neither
    unsigned device = 0;          ///< number of the card that has it
  };
  /// The first four as SubNetMode; a transfer copies a tensor from one card to another.
  enum class Kind { kNpu, kCpu, kMerge, kSwitch, kTransfer };

  /// A sub-network, as FlowNode has it, or a step.
  struct Node {
    Kind kind = Kind::kNpu;
    int32_t id = 0;
    unsigned device = 0;
    std::vector<uint32_t> inputs, outputs;  ///< slots
    int next = kEnd, if_true = kEnd;
    Unit unit;  ///< NPU
    int32_t op = 0;
    npu_cpu_param param{};
    std::vector<std::vector<uint32_t>> from;
    std::vector<bool> branch;
  };

  std::vector<Slot> slots;
  std::vector<Node> nodes;
  bool waits = false;  ///< a launch is finished when it returns
  std::vector<uint64_t>
      scratch_bytes;  ///< of a launch, for each card: activation memory first, then what is between sub-networks

  /// Makes one of a stage's sub-networks, on one card. `who` begins the reason.
  static Reason load(npu_device *device, const std::string &who, const npu::bmodel::Container &container,
                     const npu::bmodel::fb::NetParameter &stage, Given &given, Plan &plan);
  /// What scratch_bytes will be.
  static uint64_t activations(const npu::bmodel::fb::NetParameter &stage, const npu::bmodel::Flow &flow);

  uint64_t predicted_cycles() const;
};

/// The kind of a tensor in a CPU operator's terms, without data.
npu::cpuop::Tensor cpu_tensor(const TensorInfo &info);

}  // namespace npurt

#endif  // NPURT_PLAN_H
