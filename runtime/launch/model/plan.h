// SPDX-License-Identifier: MIT
// How a stage runs: its programs and what the host does, the tensors between them, and the order. Mostly it is one
// program.
#ifndef NPURT_PLAN_H
#define NPURT_PLAN_H

#include <memory>

#include "runtime/bmodel/room.h"
#include "runtime/cpu/subnet.h"
#include "runtime/cpu/subnet_graph.h"
#include "runtime/launch/model/unit.h"

namespace npurt {

/// Constant once it is made.
struct Plan {
  static constexpr int kEnd = npu::bmodel::FlowNode::kEnd;
  static constexpr uint64_t kAlign = npu::bmodel::kTensorAlign;

  struct Slot {
    TensorInfo info;
    int input = -1, output = -1;  ///< number among the stage's, or -1
    uint64_t offset = 0;          ///< in the launch's activation memory, for what is neither
    unsigned device = 0;          ///< number of the card that has it

    bool is_output() const { return output >= 0; }
    bool between() const { return input < 0 && output < 0; }
    /// Precondition: it is an input or an output.
    size_t number() const { return static_cast<size_t>(is_output() ? output : input); }
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
    std::shared_ptr<const npu::cpu::HostGraph> graph;  ///< NPU_CPU_GRAPH
    std::vector<std::vector<uint32_t>> from;
    std::vector<bool> branch;
  };

  std::vector<Slot> slots;
  std::vector<Node> nodes;
  bool waits = false;  ///< a launch is finished when it returns
  std::vector<uint64_t>
      scratch_bytes;  ///< of a launch, for each card: activation memory first, then what is between sub-networks

  /// One program on one card, with `context` bytes of activation memory.
  static Plan of_program(Unit unit, uint64_t context);
  /// Whether that is all.
  bool only_program() const { return nodes.size() == 1 && nodes[0].kind == Kind::kNpu && !waits; }
  /// Makes one of a stage's sub-networks, on one card. `who` begins the reason.
  static Status load(npu_device *device, const std::string &who, const npu::bmodel::Container &container,
                     const npu::bmodel::fb::NetParameter &stage, UserMemory &user, Plan &plan);
  /// What scratch_bytes will be.
  static uint64_t activations(const npu::bmodel::fb::NetParameter &stage, const npu::bmodel::Flow &flow);

  /// What the programs add up to; of local memory, coefficients and cores the most that one needs.
  struct Totals {
    uint64_t tiu_count = 0, gdma_count = 0, predicted_cycles = 0, code_bytes = 0;
    uint64_t lmem_bytes = 0, coeff_bytes = 0, cores = 1;
  };
  Totals totals() const;
};

/// The kind of a tensor in a CPU operator's terms, without data.
npu::cpu::Tensor cpu_tensor(const TensorInfo &info);

}  // namespace npurt

#endif  // NPURT_PLAN_H
