// SPDX-License-Identifier: MIT
#include "plan.h"

namespace npurt {

namespace fb = npu::bmodel::fb;
using npu::bmodel::Container;
using npu::bmodel::Flow;
using npu::bmodel::FlowNode;

namespace {

std::vector<TensorInfo> infos(const Plan &plan, const std::vector<uint32_t> &slots) {
  std::vector<TensorInfo> out;
  for (const uint32_t s : slots) out.push_back(plan.slots[s].info);
  return out;
}

Reason check_cpu(const Plan &plan, const Plan::Node &node) {
  std::vector<npu::cpuop::Tensor> in, out;
  for (const uint32_t s : node.inputs) in.push_back(cpu_tensor(plan.slots[s].info));
  for (const uint32_t s : node.outputs) out.push_back(cpu_tensor(plan.slots[s].info));
  return npu::cpuop::check(node.op, node.param, in, out);
}

Reason load_node(npu_device *device, const std::string &who, std::span<const uint8_t> coeff, FlowNode &from,
                 Given &given, Plan &plan) {
  Plan::Node &node = plan.nodes.emplace_back();
  node.kind = static_cast<Plan::Kind>(from.mode);
  node.id = from.id;
  node.inputs = std::move(from.inputs);
  node.outputs = std::move(from.outputs);
  node.next = from.next;
  node.if_true = from.if_true;
  node.op = from.op;
  node.param = from.param;
  node.from = std::move(from.from);
  node.branch = std::move(from.branch);
  const std::string name = who + ": sub-network " + std::to_string(node.id);
  if (node.kind == Plan::Kind::kCpu) {
    const Reason why = check_cpu(plan, node);
    return why.empty() ? why : name + ": " + why;
  }
  if (node.kind != Plan::Kind::kNpu) return {};
  node.unit.inputs = infos(plan, node.inputs);
  node.unit.outputs = infos(plan, node.outputs);
  return upload_unit(device, name, from.program, coeff, given, node.unit);
}

}  // namespace

npu::cpuop::Tensor cpu_tensor(const TensorInfo &info) {
  return {static_cast<uint32_t>(info.dtype), {info.shape.dims, info.shape.dims + info.shape.num_dims}, {}};
}

Reason Plan::load(npu_device *device, const std::string &who, const Container &container, const fb::NetParameter &stage,
                  Given &given, Plan &plan) {
  Flow flow;
  Reason why = npu::bmodel::read_flow(container, stage, flow);
  if (!why.empty()) return who + ": " + why;
  uint64_t end = (stage.ctx_size() + kAlign - 1) / kAlign * kAlign;
  for (const auto &t : flow.tensors) {
    Slot &slot = plan.slots.emplace_back(Slot{read_tensor(*t.tensor), t.input, t.output});
    if (t.input >= 0 || t.output >= 0) continue;
    slot.offset = end;
    end += (slot.info.bytes + kAlign - 1) / kAlign * kAlign;
  }
  plan.scratch_bytes = {end};
  const auto coeff =
      stage.coeff_mem() ? container.binary(stage.coeff_mem()->binary_coeff()) : std::span<const uint8_t>();
  for (FlowNode &node : flow.nodes) {
    why = load_node(device, who, coeff, node, given, plan);
    if (!why.empty()) return why;
  }
  return {};
}

uint64_t Plan::activations(const fb::NetParameter &stage, const Flow &flow) {
  uint64_t end = (stage.ctx_size() + kAlign - 1) / kAlign * kAlign;
  for (const auto &t : flow.tensors)
    if (t.input < 0 && t.output < 0) end += (npu::bmodel::tensor_bytes(*t.tensor) + kAlign - 1) / kAlign * kAlign;
  return end;
}

uint64_t Plan::predicted_cycles() const {
  uint64_t cycles = 0;
  for (const Node &node : nodes) cycles += node.unit.predicted_cycles;
  return cycles;
}

}  // namespace npurt
