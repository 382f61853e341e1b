// SPDX-License-Identifier: MIT
// Why a network cannot be compiled, as far as that decides what would help.
#ifndef NPU_GRAPH_OBSTACLE_H
#define NPU_GRAPH_OBSTACLE_H

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"

namespace npu::graph {

enum class Obstacle : uint8_t {
  Other,          ///< mostly a node that breaks the rules of its operator
  Operator,       ///< there is no such operator here
  OperatorSet,    ///< the file's is not taken
  Attribute,      ///< the operator does not have it
  Value,          ///< of an operand, which has to be known when the network is compiled
  DataShape,      ///< of a result, which depends on data
  OpenShape,      ///< of an input, which nobody has fixed
  Type,           ///< of elements, or no tensor at all
  Form,           ///< the operator is there, but not with this attribute, input or result
  Size,           ///< more than there may be, of elements, iterations, nodes or dimensions
  Option,         ///< a shape or a value that was given does not fit the model
  DeclaredShape,  ///< the file says another one than its nodes make
  LocalMemory,    ///< too little
  File,           ///< it cannot be read, or is no network
  Unsuitable,     ///< it is something else, or a file that it needs is missing: the message has the remedy
  Plugin,         ///< refuses, or breaks the rules of plug-ins
  Function,       ///< one of the file, or its call, breaks the rules of functions
  NoInput,        ///< none is left: all is constant
};

/// "operator", "operator set", "attribute", "value", "data-dependent shape", "open shape", "type", "form", "size",
/// "option", "declared shape", "local memory", "file" (two of them), "plug-in", "function", "no input", "other".
const char *obstacle_name(Obstacle obstacle);

/// An error whose code says what is in the way.
Status refuse(Obstacle obstacle, std::string message);
/// Other for an error that says nothing of it.
Obstacle obstacle_of(const Status &status);

/// Nodes of one operator that cannot be compiled for the same reason.
struct Finding {
  static constexpr size_t kNamed = 3;

  std::string op;  ///< with its domain in front, where that is not ONNX's own: "com.microsoft.Attention"
  std::string what, help;
  Obstacle obstacle = Obstacle::Other;
  size_t count = 0;
  std::vector<std::string> nodes;  ///< names of the first kNamed
};

struct Findings {
  std::string headline;  ///< "4 nodes have operators that are not supported"
  std::vector<Finding> list;

  bool empty() const { return list.empty(); }
  /// The headline, then each finding on a line: "Relu 'a': what", "Relu (4 nodes: 'a', 'b', 'c', ...): what"; with help
  /// below it.
  std::string text(bool help) const;
};

}  // namespace npu::graph

#endif  // NPU_GRAPH_OBSTACLE_H
