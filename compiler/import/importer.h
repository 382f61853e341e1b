// SPDX-License-Identifier: MIT
// From what an ONNX file says to a typed graph with every shape known.
#ifndef NPU_GRAPH_IMPORTER_H
#define NPU_GRAPH_IMPORTER_H

#include <map>

#include "compiler/graph/ir.h"
#include "compiler/graph/obstacle.h"
#include "compiler/import/raw_model.h"

namespace npu::graph {

struct ImportOptions {
  std::map<std::string, Shape> shapes;      ///< of inputs whose dimensions the file leaves open
  std::map<std::string, TensorPtr> values;  ///< of inputs that are known at compile time: they are no inputs any more
  /// A branch of an If that cannot be converted is an error of launches that choose it, where the other one can be.
  bool failing_branches = true;
  bool suggest = true;  ///< an error about open shapes suggests some, which takes a few imports
};

/// The element types of inputs and outputs are those that a .bmodel has: float32 for all floating-point types, uint8
/// for bool, int32 and uint32 for 64-bit integers (outputs are saturated).
///
/// Converts all nodes that the outputs need. Every node that cannot be converted is named in one message.
/// `findings`, if given, has these nodes afterwards, and none of earlier calls.
Status import_model(const RawModel &model, const ImportOptions &options, Graph &graph, Findings *findings = nullptr);

/// What the importer says of one node of the file.
struct NodeVerdict {
  size_t node = 0;      ///< its place in the file
  size_t source = 0;    ///< its place in the graph's sources; those of its body or function follow
  size_t end = 0;       ///< number of the first source behind these
  std::string problem;  ///< why it cannot be converted; empty: it can
  std::string input;    ///< of the file, where it is only that input, itself or what follows from it, that is wrong
  std::string help;     ///< against the problem
};

/// Converts what can be converted of the nodes that the outputs need, in their order. What another node reads of one
/// that cannot becomes an input of the graph where the file says which shape it has; what such a node reads becomes an
/// output. Errors are those of the whole file.
Status explain_model(const RawModel &model, const ImportOptions &options, Graph &graph,
                     std::vector<NodeVerdict> &verdicts);

}  // namespace npu::graph

#endif  // NPU_GRAPH_IMPORTER_H
