// SPDX-License-Identifier: MIT
#include "compiler/api/host_part.h"

#include <algorithm>
#include <cstring>

#include "runtime/bmodel/cpu_param.h"
#include "runtime/cpu/subnet_graph.h"

namespace npu::compiler {
namespace {

using graph::kNoValue;
using graph::ValueId;

/// The graph with its values in the order of a HostGraph.
cpu::HostGraph host_graph(const graph::Graph &g) {
  cpu::HostGraph out;
  std::vector<int32_t> number(g.values.size(), -1);
  int32_t next = 0;
  for (ValueId v : g.inputs) {
    out.inputs.push_back(g[v]);
    number[static_cast<size_t>(v)] = next++;
  }
  for (size_t v = 0; v < g.values.size(); ++v)
    if (g.values[v].constant) {
      out.constants.push_back(g.values[v].constant);
      number[v] = next++;
    }
  for (const graph::Node &n : g.nodes) {
    cpu::HostNode &node =
        out.nodes.emplace_back(cpu::HostNode{n.op, n.attrs, {}, g.sources[static_cast<size_t>(n.source)].name});
    for (ValueId v : n.inputs) node.operands.push_back(v == kNoValue ? -1 : number[static_cast<size_t>(v)]);
    number[static_cast<size_t>(n.output)] = next++;
  }
  for (ValueId v : g.outputs) out.outputs.push_back(number[static_cast<size_t>(v)]);
  return out;
}

}  // namespace

Status make_host_part(const graph::Part &part, bmodel::SubNetDesc &sub) {
  cpu::HostGraph graph = host_graph(part.graph);
  NPU_TRY(cpu::infer_host_graph(graph).within("internal error, please report: part for the CPU"));
  const std::vector<uint8_t> bytes = cpu::encode_host_graph(graph);
  if (bytes.size() > UINT32_MAX)
    return Status::error("the constants that the CPU needs have " + std::to_string(bytes.size()) +
                         " bytes, at most 4 GiB are possible");
  npu_cpu_param param{};
  param.magic = NPU_CPU_PARAM_MAGIC;
  param.version = NPU_CPU_PARAM_VERSION;
  param.bytes = sizeof param;
  param.count = static_cast<uint32_t>(bytes.size());
  sub.mode = 1;
  sub.op = NPU_CPU_GRAPH;
  sub.param.resize(sizeof param);
  std::memcpy(sub.param.data(), &param, sizeof param);
  sub.param.insert(sub.param.end(), bytes.begin(), bytes.end());
  return {};
}

bmodel::TensorDesc tensor_desc(const std::string &name, const graph::Value &value) {
  const graph::TensorKind &kind = value;
  bmodel::TensorDesc t;
  cpu::StoredKind stored = cpu::stored_kind(kind);
  t.name = name;
  t.dtype = stored.bm_type;
  t.bytes = static_cast<uint64_t>(graph::element_count(kind.shape)) * graph::dtype_bytes(kind.dtype);
  if (stored.shape.size() > 8) stored.shape = {graph::element_count(stored.shape)};
  for (int64_t d : stored.shape) t.shape.push_back(static_cast<uint64_t>(d));
  if (value.quant.scale != 0) {
    t.scale = t.step = value.quant.scale;
    t.zero_point = value.quant.zero;
  }
  return t;
}

}  // namespace npu::compiler
