// SPDX-License-Identifier: MIT
// libFuzzer target: whatever bytes come, a .bmodel is refused with a reason or can be read completely.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "runtime/bmodel/flow.h"
#include "runtime/cpu/subnet.h"
#include "runtime/cpu/subnet_graph.h"

namespace {

using npu::bmodel::Container;
using npu::bmodel::Program;
namespace fb = npu::bmodel::fb;

volatile uint8_t sink;

/// Touches every byte, so that a view beyond the file is seen.
void read(std::span<const uint8_t> bytes) {
  for (const uint8_t b : bytes) sink = b;
}

/// Runs a graph on zeros, if it is done soon.
void run_small(const npu::cpu::HostGraph &graph) {
  uint64_t work = 1;
  for (const npu::cpu::TensorKind &k : graph.kinds) {
    const auto size = static_cast<uint64_t>(npu::cpu::element_count(k.shape)) + 1;
    if (size > 256 || __builtin_mul_overflow(work, size, &work)) return;
  }
  if (work > 1 << 20) return;
  std::vector<npu::cpu::Tensor> in, out;
  for (const npu::cpu::TensorKind &k : graph.inputs) in.emplace_back(k.dtype, k.shape);
  (void)npu::cpu::run_host_graph(graph, in, out);
}

/// Whatever a reader is told exists does, and lies inside the file.
void read_flow(const Container &c, const fb::NetParameter &stage) {
  npu::bmodel::Flow flow;
  if (!npu::bmodel::read_flow(c, stage, flow).ok()) return;
  for (const auto &node : flow.nodes) {
    std::vector<npu::cpu::Tensor> lists[2];
    for (const bool out : {false, true})
      for (const uint32_t t : out ? node.outputs : node.inputs) {
        const fb::Tensor &tensor = *flow.tensors.at(t).tensor;
        const auto &dims = *tensor.shape()->Get(0)->dim();
        lists[out].push_back(npu::cpu::make_kind(tensor.data_type(), {dims.begin(), dims.end()}));
      }
    for (const auto &from : node.from)
      for (const uint32_t t : from) (void)flow.tensors.at(t);
    for (const int next : {node.next, node.if_true})
      if (next != npu::bmodel::FlowNode::kEnd) (void)flow.nodes.at(static_cast<size_t>(next));
    read(node.program.tiu);
    read(node.program.gdma);
    if (node.mode != npu::bmodel::SubNetMode::kCpu) continue;
    npu::cpu::HostGraph graph;
    if (node.op == NPU_CPU_GRAPH && npu::cpu::read_subnet_graph(node.graph, lists[0], lists[1], graph).ok())
      run_small(graph);
    else if (node.op != NPU_CPU_GRAPH)
      (void)npu::cpu::check_cpu_operator(node.op, node.param, lists[0], lists[1]);
  }
}

void read_stages(const Container &c, const fb::Net &net) {
  if (!net.parameter()) return;
  std::span<const uint8_t> network;
  if (npu::bmodel::has_source(net) && npu::bmodel::read_source(c, net, network).ok()) read(network);
  for (const fb::NetParameter *stage : *net.parameter()) {
    // Whether or not anything else about the stage is right.
    if (stage->coeff_mem()) read(c.binary(stage->coeff_mem()->binary_coeff()));
    for (const fb::Binary *b : {stage->net_profile(), stage->binary_ir(), stage->net_stat(), stage->tensor_loc()})
      read(c.binary(b));
    if (stage->cmd_group())
      for (const fb::CmdGroup *group : *stage->cmd_group()) {
        read(c.binary(group->binary_bdc()));
        read(c.binary(group->binary_gdma()));
      }
    Program p;
    if (npu::bmodel::has_flow(*stage)) read_flow(c, *stage);
    if (!npu::bmodel::read_program(c, net, *stage, p).ok()) continue;
    read(p.tiu);
    read(p.gdma);
    for (const auto name : p.layers) read({reinterpret_cast<const uint8_t *>(name.data()), name.size()});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // Half of the inputs begin at an odd address, as files in memory may.
  const size_t shift = size % 2;
  const std::unique_ptr<uint8_t[]> copy(new uint8_t[size + shift]);
  if (size) std::memcpy(copy.get() + shift, data, size);
  std::unique_ptr<Container> c;
  const npu::Status opened = Container::from_memory(copy.get() + shift, size, c);
  if ((c != nullptr) != opened.ok() || opened.ok() != opened.message().empty()) std::abort();
  if (!c) return 0;
  (void)c->verify_hashes();
  (void)npu::bmodel::check_chip(*c);
  for (const fb::Net *net : *c->model().net()) read_stages(*c, *net);
  return 0;
}
