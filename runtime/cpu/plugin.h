// SPDX-License-Identifier: MIT
// Operators of users' own, from shared libraries (runtime/include/npu_plugin.h). The libraries of a process are loaded
// by load_plugin() and from the list in the environment variable NPU_PLUGINS, and stay loaded. A file names operators
// by domain and type only: what is in a .bmodel never decides which library is loaded.
#ifndef NPU_CPU_PLUGIN_H
#define NPU_CPU_PLUGIN_H

#include <span>

#include "common/status.h"
#include "runtime/cpu/attributes.h"

namespace npu::cpu {

/// Loads a library and registers its operators. Nothing happens for one that is loaded already.
Status load_plugin(const std::string &path);

/// Registers the operators of a library that is loaded in this process already, by dlopen()'s handle, which stays open.
/// Its file need not exist any more; `path` is for messages.
Status adopt_plugin(void *handle, const std::string &path);

struct LoadedPlugin {
  void *handle;
  std::string path;
};

/// The libraries that are loaded, in their order; later calls return the same ones and those that came after.
std::vector<LoadedPlugin> plugin_libraries();

/// Their real paths.
std::vector<std::string> loaded_plugins();

/// True if a library has the operator; `library` gets its file name.
bool find_plugin_operator(const std::string &domain, const std::string &op, std::string &library);

/// Sets attrs.outputs, as many as it has elements, to what infer() of the operator gives. An operand that is left out
/// is null.
Status infer_plugin(PluginAttrs &attrs, std::span<const TensorKind *const> operands);

/// The result of an operator with all of its outputs, one behind the other: `offsets` are theirs.
Status pack_outputs(std::span<const TensorKind> outputs, std::vector<int64_t> &offsets, TensorKind &packed);

/// Type and shape of a Plugin node's result. The operator gives the same outputs as when the network was compiled.
Status check_plugin(const PluginAttrs &attrs, std::span<const TensorKind *const> operands, TensorKind &packed);

/// Computes. check_plugin() has passed for these operands.
Status run_plugin(const PluginAttrs &attrs, std::span<const Tensor *const> operands, Tensor &packed);

}  // namespace npu::cpu

#endif  // NPU_CPU_PLUGIN_H
