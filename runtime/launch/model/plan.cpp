// SPDX-License-Identifier: MIT
#include "runtime/launch/model/plan.h"

#include <algorithm>

#include "runtime/launch/memory/shared_constants.h"

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

Status load_cpu(const Plan &plan, std::span<const uint8_t> bytes, Plan::Node &node) {
  std::vector<npu::cpu::Tensor> in, out;
  for (const uint32_t s : node.inputs) in.push_back(cpu_tensor(plan.slots[s].info));
  for (const uint32_t s : node.outputs) out.push_back(cpu_tensor(plan.slots[s].info));
  if (node.op != NPU_CPU_GRAPH) return npu::cpu::check_cpu_operator(node.op, node.param, in, out);
  auto graph = std::make_shared<npu::cpu::HostGraph>();
  NPU_TRY(npu::cpu::read_subnet_graph(bytes, in, out, *graph));
  share_constants(*graph);
  node.graph = std::move(graph);
  return {};
}

Status load_node(npu_device *device, const std::string &who, std::span<const uint8_t> coeff, FlowNode &from,
                 UserMemory &user, Plan &plan) {
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
  if (node.kind == Plan::Kind::kCpu) return load_cpu(plan, from.graph, node).within(name);
  if (node.kind != Plan::Kind::kNpu) return {};
  node.unit.inputs = infos(plan, node.inputs);
  node.unit.outputs = infos(plan, node.outputs);
  return upload_unit(device, name, from.program, coeff, user, node.unit);
}

}  // namespace

npu::cpu::Tensor cpu_tensor(const TensorInfo &info) {
  return npu::cpu::make_kind(info.dtype, {info.shape.dims, info.shape.dims + info.shape.num_dims});
}

Status Plan::load(npu_device *device, const std::string &who, const Container &container, const fb::NetParameter &stage,
                  UserMemory &user, Plan &plan) {
  Flow flow;
  NPU_TRY(npu::bmodel::read_flow(container, stage, flow).within(who));
  uint64_t end = npu::bmodel::tensor_room(stage.ctx_size());
  for (const auto &t : flow.tensors) {
    Slot &slot = plan.slots.emplace_back(Slot{read_tensor(*t.tensor), t.input, t.output});
    if (t.input >= 0 || t.output >= 0) continue;
    slot.offset = end;
    end += npu::bmodel::tensor_room(slot.info.bytes);
  }
  plan.scratch_bytes = {end};
  const auto coeff =
      stage.coeff_mem() ? container.binary(stage.coeff_mem()->binary_coeff()) : std::span<const uint8_t>();
  for (FlowNode &node : flow.nodes) {
    NPU_TRY(load_node(device, who, coeff, node, user, plan));
  }
  return {};
}

uint64_t Plan::activations(const fb::NetParameter &stage, const Flow &flow) {
  uint64_t end = npu::bmodel::tensor_room(stage.ctx_size());
  for (const auto &t : flow.tensors)
    if (t.input < 0 && t.output < 0) end += npu::bmodel::tensor_room(npu::bmodel::tensor_bytes(*t.tensor));
  return end;
}

Plan Plan::of_program(Unit unit, uint64_t context) {
  Plan plan;
  Node &node = plan.nodes.emplace_back();
  for (int i = 0; i < static_cast<int>(unit.inputs.size()); ++i) {
    node.inputs.push_back(static_cast<uint32_t>(plan.slots.size()));
    plan.slots.push_back({unit.inputs[static_cast<size_t>(i)], i, -1});
  }
  for (int i = 0; i < static_cast<int>(unit.outputs.size()); ++i) {
    node.outputs.push_back(static_cast<uint32_t>(plan.slots.size()));
    plan.slots.push_back({unit.outputs[static_cast<size_t>(i)], -1, i});
  }
  node.unit = std::move(unit);
  plan.scratch_bytes = {context};
  return plan;
}

Plan::Totals Plan::totals() const {
  Totals t;
  for (const Node &node : nodes) {
    t.tiu_count += node.unit.tiu_count;
    t.gdma_count += node.unit.gdma_count;
    t.predicted_cycles += node.unit.predicted_cycles;
    t.code_bytes += node.unit.code.bytes;
    t.lmem_bytes = std::max(t.lmem_bytes, node.unit.lmem_bytes);
    t.coeff_bytes = std::max(t.coeff_bytes, node.unit.coeff.bytes);
    t.cores = std::max<uint64_t>(t.cores, node.unit.streams.size());
  }
  return t;
}

}  // namespace npurt
