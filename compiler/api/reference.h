// SPDX-License-Identifier: MIT
// A network as its file has it, for comparisons: no pass has changed it, and it is computed on the host.
#ifndef NPU_COMPILER_REFERENCE_H
#define NPU_COMPILER_REFERENCE_H

#include <set>

#include "compiler/api/npuc.h"
#include "compiler/graph/ir.h"
#include "compiler/import/file_types.h"

namespace npu::compiler {

/// An input or output as the file has it.
struct FileTensor {
  std::string name;
  graph::Dtype dtype = graph::Dtype::Undefined;
  std::vector<bool> open;  ///< dimensions that the file leaves open; empty where it says nothing of the shape
  bool has_shape = false;
};

struct Reference {
  graph::Graph graph;
  graph::FileTypes types;          ///< those of 16 bits that the graph's values have in the file
  std::vector<FileTensor> inputs;  ///< inputs of the file; those with a value are no inputs of the graph
  std::map<std::string, graph::TensorPtr> values;  ///< those of Options::values, in the shapes of the file's inputs
  std::set<std::string> plugins;                   ///< operators of plug-ins, "com.example.Hysteresis"
  std::set<std::string> results;  ///< tensors that the file's nodes make, but for those in bodies and functions
};

/// Imports a file with the shapes, values and outputs of the options, and with the batch that is assumed.
Status import_reference(const std::string &path, const Options &options, Reference &out);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_REFERENCE_H
