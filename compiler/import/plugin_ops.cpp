// SPDX-License-Identifier: MIT
// Operators of users' own, which a plug-in computes on the CPU (runtime/cpu/plugin.h).
#include "compiler/import/plugin_ops.h"

#include "compiler/import/node_order.h"
#include "runtime/cpu/plugin.h"

namespace npu::graph {
namespace {

Status plugin_attribute(const OpContext &c, const std::string &name, const RawAttribute &from,
                        cpu::PluginAttribute &out) {
  out.name = name;
  if (from.graph || from.other)
    return refuse(Obstacle::Attribute, "attribute '" + name +
                                           "' is a graph, a sparse tensor or a list of tensors; operators of plug-ins "
                                           "have numbers, strings, lists of these, and tensors");
  if (from.tensor) {
    out.kind = cpu::PluginValue::Tensor;
    out.tensor = *working_tensor(from.tensor, "attribute '" + name + "' of " + node_title(c.node), c.graph);
  } else if (from.s || !from.strings.empty()) {
    out.kind = cpu::PluginValue::Strings;
    out.strings = from.s ? std::vector{*from.s} : from.strings;
  } else if (from.f || !from.floats.empty()) {
    out.kind = cpu::PluginValue::Floats;
    out.floats = from.f ? std::vector{*from.f} : from.floats;
  } else {
    out.ints = from.i ? std::vector{*from.i} : from.ints;
  }
  return {};
}

}  // namespace

bool is_plugin_operator(const RawNode &n) {
  std::string library;
  return cpu::find_plugin_operator(n.domain, n.type, library);
}

Status plugin_operator(OpContext &c) {
  cpu::PluginAttrs attrs;
  cpu::find_plugin_operator(c.node.domain, c.node.type, attrs.library);
  attrs.domain = c.node.domain;
  attrs.op = c.node.type;
  for (const auto &[name, value] : c.node.attributes)
    NPU_TRY(plugin_attribute(c, name, value, attrs.attributes.emplace_back()));
  attrs.outputs.resize(c.node.outputs.size());
  std::vector<ValueId> operands;
  std::vector<const TensorKind *> kinds;
  for (size_t k = 0; k < c.input_count(); ++k) {
    operands.push_back(optional_input(c, k));
    kinds.push_back(c.has_input(k) ? &c.value(k) : nullptr);
  }
  NPU_TRY(cpu::infer_plugin(attrs, kinds));
  std::vector<int64_t> offsets;
  TensorKind bytes;
  NPU_TRY(cpu::pack_outputs(attrs.outputs, offsets, bytes));
  const std::vector<TensorKind> outputs = attrs.outputs;
  ValueId packed;
  NPU_TRY(c.emit(Op::Plugin, std::move(operands), std::move(attrs), packed));
  for (size_t k = 0; k < outputs.size(); ++k)
    if (c.wants_output(k))
      NPU_TRY(c.emit(Op::PluginOutput, {packed}, cpu::PluginOutputAttrs{offsets[k], outputs[k]}, c.results[k]));
  return {};
}

}  // namespace npu::graph
