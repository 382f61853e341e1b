// SPDX-License-Identifier: MIT
// Which attributes an operator has, in each version of the operator set.
#ifndef NPU_GRAPH_KNOWN_ATTRIBUTES_H
#define NPU_GRAPH_KNOWN_ATTRIBUTES_H

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace npu::graph {

/// From that operator set on; the names with blanks between them.
struct AttributeNames {
  std::string_view op;
  int64_t since;
  std::string_view names;
};

/// By operator and version, of ONNX's own operators.
std::span<const AttributeNames> attribute_names();

/// Empty if the operator has an attribute of that name in that operator set, else "is not one of ...", with the names
/// of those that it has. Names that begin with "_", and "doc_string", are notes of tools, which operators do not read.
/// An operator that a file uses before the set in which it came has the attributes of its first version.
std::string wrong_attribute_name(std::string_view op, int64_t opset, std::string_view attribute);

/// The same for operators of ONNX Runtime.
std::string wrong_microsoft_attribute(std::string_view op, std::string_view attribute);

}  // namespace npu::graph

#endif  // NPU_GRAPH_KNOWN_ATTRIBUTES_H
