// SPDX-License-Identifier: MIT
// Inputs whose shape the file leaves open, and shapes that they may be given.
#ifndef NPU_GRAPH_OPEN_SHAPES_H
#define NPU_GRAPH_OPEN_SHAPES_H

#include "compiler/import/importer.h"

namespace npu::graph {

struct OpenInput {
  const RawValue *value = nullptr;
  Shape dims;  ///< -1: open; empty where the file says nothing of the shape
};

/// "input 'x' has shape [N, 3], and a program needs fixed sizes", for all of them.
std::string open_inputs_text(const std::vector<OpenInput> &inputs);

/// ", for example with --shape x=1,3 --shape y=1,128": sizes with which the network can be imported. Where none of
/// those that are tried is right, names stand in place of numbers: " with --shape x=1,length, with numbers for the
/// names".
std::string suggested_shapes(const RawModel &model, const ImportOptions &options, const std::vector<OpenInput> &inputs);

}  // namespace npu::graph

#endif  // NPU_GRAPH_OPEN_SHAPES_H
