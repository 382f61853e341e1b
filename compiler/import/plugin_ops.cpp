// SPDX-License-Identifier: MIT
// Operators of users' own, which a plug-in computes on the CPU (runtime/cpu/plugin.h).
#include "compiler/import/plugin_ops.h"

#include <dlfcn.h>
#include <strings.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "compiler/import/node_order.h"
#include "runtime/cpu/plugin.h"
#include "runtime/include/npu_plugin.h"

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

std::string operator_name(const std::string &domain, const std::string &type) {
  return domain.empty() ? type : domain + "." + type;
}

/// Operators of a loaded library that differ from the node's in the domain, or in capital letters.
std::string similar_operators(const std::string &path, const RawNode &n) {
  constexpr auto close = [](void *library) { ::dlclose(library); };
  const std::unique_ptr<void, decltype(close)> handle(::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD));
  if (!handle) return {};
  const auto entry = reinterpret_cast<decltype(&npu_plugin_entry)>(::dlsym(handle.get(), "npu_plugin_entry"));
  const npu_plugin *const table = entry ? entry() : nullptr;
  std::string out;
  for (uint32_t i = 0; table && i < table->op_count; ++i)
    if (::strcasecmp(table->ops[i].name, n.type.c_str()) == 0)
      out += "; plug-in " + path.substr(path.rfind('/') + 1) + " has " +
             operator_name(table->ops[i].domain, table->ops[i].name) + ", the file has " +
             operator_name(n.domain, n.type);
  return out;
}

/// Why libraries that the environment names are not loaded.
std::string missing_libraries() {
  const char *const list = ::secure_getenv("NPU_PLUGINS");
  const std::vector<std::string> loaded = cpu::loaded_plugins();
  std::string out;
  for (std::string_view rest = list ? list : ""; !rest.empty();) {
    const std::string path(rest.substr(0, rest.find(':')));
    rest.remove_prefix(std::min(path.size() + 1, rest.size()));
    const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), std::free);
    if (path.empty() || (real && std::ranges::find(loaded, real.get()) != loaded.end())) continue;
    if (const Status status = cpu::load_plugin(path); !status.ok()) out += "; NPU_PLUGINS: " + status.message();
  }
  return out;
}

}  // namespace

bool is_plugin_operator(const RawNode &n) {
  std::string library;
  return cpu::find_plugin_operator(n.domain, n.type, library);
}

std::string plugin_advice(const RawNode &n) {
  if (n.domain.empty() || n.domain == kMicrosoft) return {};
  std::string out;
  for (const std::string &path : cpu::loaded_plugins()) out += similar_operators(path, n);
  static const std::string missing = missing_libraries();  // the environment's list is loaded once
  return out + missing;
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
  std::vector<int64_t> offsets;
  TensorKind bytes;
  Status inferred = cpu::infer_plugin(attrs, kinds);
  if (inferred.ok()) inferred = cpu::pack_outputs(attrs.outputs, offsets, bytes);
  if (!inferred.ok()) return refuse(Obstacle::Plugin, inferred.message());
  const std::vector<TensorKind> outputs = attrs.outputs;
  ValueId packed;
  // The plug-in computes now if all operands are constants.
  if (const Status made = c.emit(Op::Plugin, std::move(operands), std::move(attrs), packed); !made.ok())
    return refuse(Obstacle::Plugin, made.message());
  for (size_t k = 0; k < outputs.size(); ++k)
    if (c.wants_output(k))
      NPU_TRY(c.emit(Op::PluginOutput, {packed}, cpu::PluginOutputAttrs{offsets[k], outputs[k]}, c.results[k]));
  return {};
}

}  // namespace npu::graph
