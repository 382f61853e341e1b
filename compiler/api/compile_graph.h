// SPDX-License-Identifier: MIT
// The part of npuc behind the passes.
#ifndef NPU_COMPILER_COMPILE_GRAPH_H
#define NPU_COMPILER_COMPILE_GRAPH_H

#include <exception>
#include <new>

#include "compiler/api/npuc.h"
#include "compiler/graph/ir.h"
#include "compiler/import/raw_model.h"
#include "compiler/lowering/lowered.h"

namespace npu::compiler {

/// Compiles a graph as it is: no pass looks at it any more. What the chip cannot compute becomes parts for the CPU.
Status compile_graph(graph::Graph &graph, const Options &options, Compiled &out);

/// "TIU", "GDMA", "CPU", or several of them with +; empty: the layer has no command and no operator on the CPU.
std::string engines_text(const LayerReport &layer);

/// The passes between importer and compile_graph() of a network that is not quantized.
Status run_passes(graph::Graph &graph, const Options &options);

/// Makes tensors of the file its outputs, instead of its own; none: its own stay.
Status replace_outputs(const std::vector<std::string> &names, graph::RawModel &raw);

/// Runs f; running out of memory is an error with the code -ENOMEM.
template <class F>
Status guarded(F f) {
  try {
    return f();
  } catch (const std::bad_alloc &) {
    return Status::error(-ENOMEM, "not enough memory on this machine for a network of that size");
  } catch (const std::exception &e) {
    return Status::error(std::string(kInternalError) + e.what());
  }
}

}  // namespace npu::compiler

#endif  // NPU_COMPILER_COMPILE_GRAPH_H
